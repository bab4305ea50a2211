package openairesponses

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

// past is what was said in a test: questions and answers by id.
type past map[string]struct {
	question string
	items    []string
}

func (p past) Answer(id string) (question []byte, items [][]byte, ok bool) {
	a, ok := p[id]
	for _, it := range a.items {
		items = append(items, []byte(it))
	}
	return []byte(a.question), items, ok
}

func (p past) Item(id string) ([]byte, bool) {
	for _, a := range p {
		for _, it := range a.items {
			if itemIDOf([]byte(it)) == id {
				return []byte(it), true
			}
		}
	}
	return nil, false
}

const (
	firstItem  = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello."}]}`
	secondItem = `{"id":"fc_2","type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
)

var spoken = past{
	"resp_1":    {`{"input":"Hi"}`, []string{firstItem}},
	"resp_2":    {`{"previous_response_id":"resp_1","input":[{"id":"msg_1"},{"role":"user","content":"Go"}]}`, []string{secondItem}},
	"resp_lost": {`{"previous_response_id":"resp_0","input":"x"}`, nil},
	"resp_torn": {`{"input":[{"id":"msg_9"}]}`, []string{firstItem}},
	"resp_odd":  {`{"input":7}`, nil},
	"resp_ring": {`{"previous_response_id":"resp_ring","input":"x"}`, nil},
}

func TestRecount(t *testing.T) {
	const hi, again = `{"type":"message","role":"user","content":"Hi"}`, `{"role":"user","content":"Go"}`
	for _, c := range []struct{ ask, want string }{ // the same again where nothing is wanted
		{ask: `{"input":[],"store":true,"previous_response_id":"resp_1"}`, want: `{"store":true,"input":[` + hi + `,` + firstItem + `]}`},
		{ask: `{"previous_response_id":"resp_1"}`, want: `{"input":[` + hi + `,` + firstItem + `]}`},
		{ask: `{"previous_response_id":"resp_2","input":[{"type":"item_reference","id":"fc_2"}]}`,
			want: `{"input":[` + strings.Join([]string{hi, firstItem, firstItem, again, secondItem, secondItem}, ",") + `]}`},
		{ask: `{"previous_response_id":null,"input":[{"id":"msg_1","type":null}]}`, want: `{"previous_response_id":null,"input":[` + firstItem + `]}`},
		{ask: `{"previous_response_id":"resp_1","input":[{"id":"msg_9"}]}`, want: `{"input":[` + hi + `,` + firstItem + `,{"id":"msg_9"}]}`},
		{ask: `{"previous_response_id":"resp_9","input":[{"id":"msg_1"}]}`, want: `{"previous_response_id":"resp_9","input":[` + firstItem + `]}`},
		{ask: `{"model":"m","input":"x"}`},
		{ask: `{"previous_response_id":"resp_9"}`},
		{ask: `{"previous_response_id":"resp_lost","input":"x"}`},
		{ask: `{"previous_response_id":"resp_torn","input":"x"}`},
		{ask: `{"previous_response_id":"resp_odd"}`},
		{ask: `{"previous_response_id":"resp_ring"}`},
		{ask: `{"input":[{"role":"user","content":"x"},{"type":"item_reference","id":"msg_9"}]}`},
		{ask: `{"input":[{"type":"item_reference"}]}`},
		{ask: `{"input":7,"previous_response_id":"resp_1"}`}, // whoever is asked may say what is wrong with it
		{ask: `[]`},
	} {
		got, err := Codec{}.Recount([]byte(c.ask), spoken, 1<<20)
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\n got %s %v\nwant %s", c.ask, got, err, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for body, want := range map[string]bool{
		`{"previous_response_id":"x"}`:                               true,
		`{"input":[{"id":"msg_1","type":"item_reference"}]}`:         true,
		`{"input":[{"id":"msg_1"}]}`:                                 true,
		`{"input":[{"id": "msg_1" }]}`:                               true,
		`{"input":[{"id":"msg_1","role":"user"},{"id":"m"}]}`:        true,
		`{"input":[{"id":"msg_1","role":"user","content":"x"}]}`:     false,
		`{"conversation":{"id":"conv_1"}}`:                           true, // it is quick, and may be wrong
		`{"input":[{"role":"user","content":"{\"id\":\"msg_1\"}"}]}`: false,
		`{"input":"\"previous_response_id\""}`:                       false,
		`{"input":[{"id":"`:                                          false,
		`{"input":[{"id":7}]}`:                                       false,
		`{"input":"x"}`:                                              false,
	} {
		if got := (Codec{}).Names([]byte(body)); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}

// TestRecountIsBounded: what is named may be far larger than the name.
func TestRecountIsBounded(t *testing.T) {
	big := past{"resp_1": {`{"input":"Hi"}`, []string{`{"id":"msg_1","text":"` + strings.Repeat("x", 1000) + `"}`}}}
	references := strings.Repeat(`{"id":"msg_1"},`, 20)
	for _, ask := range []string{`{"previous_response_id":"resp_1"}`, `{"input":[` + strings.TrimSuffix(references, ",") + `]}`} {
		if _, err := (Codec{}).Recount([]byte(ask), big, 900); err == nil || err.Kind != llm.TooLarge {
			t.Errorf("%.40s: %+v", ask, err)
		}
		if got, err := (Codec{}).Recount([]byte(ask), big, 30_000); err != nil || got == nil {
			t.Errorf("%.40s: %+v", ask, err)
		}
	}
	ring := big["resp_1"]
	ring.question = `{"previous_response_id":"resp_r","input":"x"}`
	big["resp_r"] = ring
	if _, err := (Codec{}).Recount([]byte(`{"previous_response_id":"resp_r"}`), big, 30_000); err == nil || err.Kind != llm.TooLarge {
		t.Errorf("a ring: %+v", err)
	}
}

func TestTold(t *testing.T) {
	for status, ok := range map[string]bool{"completed": true, "incomplete": true, "failed": false, "in_progress": false, "": false} {
		answer := fmt.Sprintf(`{"id":"resp_1","status":%q,"output":[%s,%s]}`, status, firstItem, secondItem)
		told, kept := Codec{}.Told([]byte(answer))
		if kept != ok || ok && (told.ID != "resp_1" || len(told.Items) != 2 || told.Items[1].ID != "fc_2" || string(told.Items[0].Text) != firstItem) {
			t.Errorf("%s: %v %+v", status, kept, told)
		}
	}
	for _, no := range []string{"", "[]", `{"status":"completed","output":[]}`} {
		if _, ok := (Codec{}).Told([]byte(no)); ok {
			t.Errorf("%q tells something", no)
		}
	}
}

// FuzzRecount: what was written out can be read, names nothing of what is known any more,
// and is written out once.
func FuzzRecount(f *testing.F) {
	for _, ask := range []string{`{"previous_response_id":"resp_2","input":"x"}`, `{"input":[{"id":"msg_1"}]}`, `{"input":[{"type":"item_reference","id":"fc_2"},{"role":"user","content":"x"}]}`,
		`{"input":[{"role":"user","content":"x"}],"previous_response_id":""}`, `{"previous_response_id":"resp_9","input":[{"id":"msg_1"},{"id":"msg_9"}]}`} {
		f.Add([]byte(ask))
	}
	f.Fuzz(func(t *testing.T, ask []byte) {
		got, err := Codec{}.Recount(ask, spoken, 1<<20)
		if err != nil || got == nil {
			return
		}
		var w Request
		if err := requestShape.Unmarshal(got, &w); err != nil {
			t.Fatalf("%s becomes %s: %v", ask, got, err)
		}
		if id := w.PreviousResponseID.Value(); id == "resp_1" || id == "resp_2" {
			t.Fatalf("%s becomes %s", ask, got)
		}
		if again, err := (Codec{}).Recount(got, spoken, 1<<20); err != nil || again != nil {
			t.Fatalf("%s becomes %s and then %s, %v", ask, got, again, err)
		}
	})
}
