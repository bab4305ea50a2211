package admin

import (
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestCapturesAreShown checks that every operator sees that a capture is attached, and that an operator
// of one organisation sees no filter, which may name another's key.
func TestCapturesAreShown(t *testing.T) {
	w := newWorld(t)
	since := time.Now().Truncate(time.Second)
	var attached []Capture
	w.options.Captures = func() []Capture { return attached }
	w.serve()
	owner, bound := w.operator(access.Owner, ""), w.operator(access.Billing, "a")
	captures := func(key string) []Capture {
		return read[whoView](t, w.send(key, "GET", "/api/v1/whoami", ""), 200).Captures
	}
	if list := captures(owner); list != nil {
		t.Errorf("%+v", list)
	}
	attached = []Capture{{Since: since, User: "1000", Model: "m", Key: "kb"}}
	if list := captures(owner); len(list) != 1 || !list[0].Since.Equal(since) || list[0].User != "1000" || list[0].Model != "m" || list[0].Key != "kb" {
		t.Errorf("%+v", list)
	}
	attached = []Capture{{Since: since, User: "1000", Model: "m", Key: "kb"}}
	if list := captures(bound); len(list) != 1 || list[0].User != "1000" || list[0].Model+list[0].Key+list[0].Request != "" {
		t.Errorf("%+v", list)
	}
}

// TestEntriesOfOthers checks that entries of sign-ins and captures have an outcome like those of the API.
func TestEntriesOfOthers(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	w.must(w.store.Audit(t.Context(), store.Entry{At: time.Now(), Actor: "uid:0", Action: "capture", Detail: `{"model":"m: x"}`}))
	list := read[entryList](t, w.send(owner, "GET", "/api/v1/audit?action=capture", ""), 200).Entries
	if len(list) != 1 || list[0].Outcome != allowed || list[0].Code != "" || list[0].Detail != `{"model":"m: x"}` {
		t.Errorf("%+v", list)
	}
}
