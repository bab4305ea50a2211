package usagelog

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

// FuzzEvents reads any bytes as a message of a log. Events that are read belong to its log, and are stored
// with what was read.
func FuzzEvents(f *testing.F) {
	honest, err := os.ReadFile("testdata/event.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("gw-1-17-1790000000/1/0/42", honest)
	f.Add("gw-1/0/0/9223372036854775807", []byte(`{"v":1,"log":"gw-1","position":1,"id":"x","outcome":"answered","time":"9999-12-31T23:59:59Z"}`))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		name, err := ParseName(header)
		if err != nil {
			return
		}
		if again, err := ParseName(name.String()); err != nil || again != name {
			t.Errorf("%q: %+v and %+v, %v", header, name, again, err)
		}
		m := Message{Name: name, Body: body}
		list, _, _ := m.Events()
		for i := range list {
			if list[i].Log != name.Log || list[i].Position > name.To || list[i].Position < 1 {
				t.Errorf("%+v in %+v", list[i], name)
			}
			if row := list[i].Row(); row.ID == "" {
				t.Errorf("%+v: no id", row)
			}
		}
	})
}

// honestRefusals are the events of a count and of a row.
func honestRefusals(t testing.TB) string {
	t.Helper()
	sink := &lines{}
	b := usage.Refusals{Counts: []usage.RefusalCount{{Log: "l", Node: "gw", Org: "o", Team: "t", Key: "k", Reason: usage.RefusedLimit, Minute: time.Unix(1_790_000_040, 0), Count: 5}},
		Rows: []usage.Row{{ID: "x", Key: "k", Began: time.Unix(1_790_000_000, 0), Status: 429, Outcome: usage.Refused, Cost: new(usage.Money), Told: usage.Told{Reason: usage.RefusedLimit, Code: "c", Message: "m", Remedy: "r"}}}}
	if err := NewRefusals(sink, Key("k"), "gw").AppendRefusals(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return string(sink.body)
}

// lines is a log that keeps the bodies of messages.
type lines struct {
	Producer
	body []byte
}

func (l *lines) Produce(_ context.Context, list []Message) error {
	for _, m := range list {
		l.body = append(l.body, m.Body...)
	}
	return nil
}

// FuzzRefusals reads any bytes as a message about refused requests: what is read has a place, a count and texts within bounds, and
// no row is another's than of a refused request.
func FuzzRefusals(f *testing.F) {
	f.Add([]byte(honestRefusals(f)))
	f.Add([]byte(`{"v":1,"log":"l","refused":"limit","count":9223372036854775807,"minute":"9999-12-31T23:59:59Z"}` + "\n" + `{"v":1,"request":{"id":"x","outcome":"answered","cost_nano_usd":5}}`))
	f.Fuzz(func(t *testing.T, body []byte) { checkRefusals(t, "", body) })
}

func checkRefusals(t *testing.T, name string, body []byte) {
	t.Helper()
	b, _ := DecodeRefusals(body)
	for _, c := range b.Counts {
		if c.Log == "" || c.Reason == "" || c.Count < 1 || c.Minute.Year() < 1970 || c.Minute.Year() > 2200 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for i := range b.Rows {
		if r := &b.Rows[i]; r.ID == "" || r.Outcome != usage.Refused || len(r.Told.Message) > usage.MaxTold {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestHostileRefusals decodes events of refused requests that no gateway writes.
func TestHostileRefusals(t *testing.T) {
	n := 0
	for honest := range strings.Lines(honestRefusals(t)) {
		for _, a := range hostile.Answers(honest, "http://127.0.0.1") {
			checkRefusals(t, a.Name, []byte(a.Text))
			n++
		}
	}
	if n < 300 {
		t.Errorf("%d events", n)
	}
	if b, bad := DecodeRefusals([]byte(honestRefusals(t))); len(b.Counts) != 1 || len(b.Rows) != 1 || bad != 0 {
		t.Errorf("%+v, %d are malformed", b, bad)
	}
}
