package openairesponses

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// responseStore is a ResponseStore for tests, by response id.
type responseStore map[string]struct {
	input string
	items []string
}

func (s responseStore) Response(id string) (input []byte, items [][]byte, ok bool) {
	r, ok := s[id]
	for _, it := range r.items {
		items = append(items, []byte(it))
	}
	return []byte(r.input), items, ok
}

func (s responseStore) Item(id string) ([]byte, bool) {
	for _, r := range s {
		for _, it := range r.items {
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

var stored = responseStore{
	"resp_1":    {`{"input":"Hi"}`, []string{firstItem}},
	"resp_2":    {`{"previous_response_id":"resp_1","input":[{"id":"msg_1"},{"role":"user","content":"Go"}]}`, []string{secondItem}},
	"resp_lost": {`{"previous_response_id":"resp_0","input":"x"}`, nil},
	"resp_torn": {`{"input":[{"id":"msg_9"}]}`, []string{firstItem}},
	"resp_odd":  {`{"input":7}`, nil},
	"resp_ring": {`{"previous_response_id":"resp_ring","input":"x"}`, nil},
}

func TestExpandReferences(t *testing.T) {
	const hi, again = `{"type":"message","role":"user","content":"Hi"}`, `{"role":"user","content":"Go"}`
	for _, c := range []struct{ req, want string }{ // no want: nothing is expanded
		{req: `{"input":[],"store":true,"previous_response_id":"resp_1"}`, want: `{"store":true,"input":[` + hi + `,` + firstItem + `]}`},
		{req: `{"previous_response_id":"resp_1"}`, want: `{"input":[` + hi + `,` + firstItem + `]}`},
		{req: `{"previous_response_id":"resp_2","input":[{"type":"item_reference","id":"fc_2"}]}`,
			want: `{"input":[` + strings.Join([]string{hi, firstItem, firstItem, again, secondItem, secondItem}, ",") + `]}`},
		{req: `{"previous_response_id":null,"input":[{"id":"msg_1","type":null}]}`, want: `{"previous_response_id":null,"input":[` + firstItem + `]}`},
		{req: `{"previous_response_id":"resp_1","input":[{"id":"msg_9"}]}`, want: `{"input":[` + hi + `,` + firstItem + `,{"id":"msg_9"}]}`},
		{req: `{"previous_response_id":"resp_9","input":[{"id":"msg_1"}]}`, want: `{"previous_response_id":"resp_9","input":[` + firstItem + `]}`},
		{req: `{"model":"m","input":"x"}`},
		{req: `{"previous_response_id":"resp_9"}`},
		{req: `{"previous_response_id":"resp_lost","input":"x"}`},
		{req: `{"previous_response_id":"resp_torn","input":"x"}`},
		{req: `{"previous_response_id":"resp_odd"}`},
		{req: `{"previous_response_id":"resp_ring"}`},
		{req: `{"input":[{"role":"user","content":"x"},{"type":"item_reference","id":"msg_9"}]}`},
		{req: `{"input":[{"type":"item_reference"}]}`},
		{req: `{"input":7,"previous_response_id":"resp_1"}`}, // the upstream reports what is wrong with it
		{req: `[]`},
	} {
		e, err := expandReferences([]byte(c.req), stored, 1<<20)
		got, previous := "", ""
		if e != nil {
			got, previous = string(e.Body), e.PreviousID
		}
		if err != nil || got != c.want || (previous != "") != (strings.Contains(c.req, "_response_id\":\"") && !strings.Contains(c.want, "_response_id\":\"") && c.want != "") {
			t.Errorf("%s:\n got %s, continues %q, %v\nwant %s", c.req, got, previous, err, c.want)
		}
	}
}

func TestMayRefer(t *testing.T) {
	for body, want := range map[string]bool{
		`{"previous_response_id":"x"}`:                               true,
		`{"input":[{"id":"msg_1","type":"item_reference"}]}`:         true,
		`{"input":[{"id":"msg_1"}]}`:                                 true,
		`{"input":[{"id": "msg_1" }]}`:                               true,
		`{"input":[{"id":"msg_1","role":"user"},{"id":"m"}]}`:        true,
		`{"input":[{"id":"msg_1","role":"user","content":"x"}]}`:     false,
		`{"conversation":{"id":"conv_1"}}`:                           true, // fast, and sometimes wrong
		`{"input":[{"role":"user","content":"{\"id\":\"msg_1\"}"}]}`: false,
		`{"input":"\"previous_response_id\""}`:                       false,
		`{"input":[{"id":"`:                                          false,
		`{"input":[{"id":7}]}`:                                       false,
		`{"input":"x"}`:                                              false,
	} {
		if got := mayRefer([]byte(body)); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}

// TestExpandIsBounded: a reference may expand to far more bytes than it has.
func TestExpandIsBounded(t *testing.T) {
	big := responseStore{"resp_1": {`{"input":"Hi"}`, []string{`{"id":"msg_1","text":"` + strings.Repeat("x", 1000) + `"}`}}}
	references := strings.Repeat(`{"id":"msg_1"},`, 20)
	for _, req := range []string{`{"previous_response_id":"resp_1"}`, `{"input":[` + strings.TrimSuffix(references, ",") + `]}`} {
		if _, err := expandReferences([]byte(req), big, 900); err == nil || err.Kind != llm.TooLarge {
			t.Errorf("%.40s: %+v", req, err)
		}
		if got, err := expandReferences([]byte(req), big, 30_000); err != nil || got == nil {
			t.Errorf("%.40s: %+v", req, err)
		}
	}
	ring := big["resp_1"]
	ring.input = `{"previous_response_id":"resp_r","input":"x"}`
	big["resp_r"] = ring
	if _, err := expandReferences([]byte(`{"previous_response_id":"resp_r"}`), big, 30_000); err == nil || err.Kind != llm.TooLarge {
		t.Errorf("a ring: %+v", err)
	}
}

func TestParseStored(t *testing.T) {
	for status, ok := range map[string]bool{"completed": true, "incomplete": true, "failed": false, "in_progress": false, "": false} {
		answer := fmt.Sprintf(`{"id":"resp_1","status":%q,"output":[%s,%s]}`, status, firstItem, secondItem)
		got, kept := parseStored([]byte(answer))
		if kept != ok || ok && (got.ID != "resp_1" || len(got.Items) != 2 || got.Items[1].ID != "fc_2" || string(got.Items[0].Text) != firstItem) {
			t.Errorf("%s: %v %+v", status, kept, got)
		}
	}
	for _, no := range []string{"", "[]", `{"status":"completed","output":[]}`} {
		if _, ok := parseStored([]byte(no)); ok {
			t.Errorf("%q is a response", no)
		}
	}
}

// FuzzExpandReferences: an expanded request can be decoded, has no reference left that
// the store knows, and does not expand again.
func FuzzExpandReferences(f *testing.F) {
	for _, req := range []string{`{"previous_response_id":"resp_2","input":"x"}`, `{"input":[{"id":"msg_1"}]}`, `{"input":[{"type":"item_reference","id":"fc_2"},{"role":"user","content":"x"}]}`,
		`{"input":[{"role":"user","content":"x"}],"previous_response_id":""}`, `{"previous_response_id":"resp_9","input":[{"id":"msg_1"},{"id":"msg_9"}]}`} {
		f.Add([]byte(req))
	}
	f.Fuzz(func(t *testing.T, req []byte) {
		e, err := expandReferences(req, stored, 1<<20)
		if err != nil || e == nil {
			return
		}
		got := e.Body
		var w Request
		if err := wire.Unmarshal(got, &w); err != nil {
			t.Fatalf("%s becomes %s: %v", req, got, err)
		}
		if id := w.PreviousResponseID.Value(); id == "resp_1" || id == "resp_2" {
			t.Fatalf("%s becomes %s", req, got)
		}
		if again, err := expandReferences(got, stored, 1<<20); err != nil || again != nil {
			t.Fatalf("%s becomes %s and then %s, %v", req, got, again, err)
		}
	})
}
