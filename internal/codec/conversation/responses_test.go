package conversation

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/protocol/openairesponses"
)

// turn stores a request and its response with one message.
func (r *Responses) turn(caller, id, previous, text string) {
	d := openairesponses.Dialect().Stored
	members := map[string][]byte{"input": []byte(`"` + text + `"`)}
	if previous != "" {
		members["previous_response_id"] = []byte(`"` + previous + `"`)
	}
	input := d.Input(func(name string) []byte { return members[name] })
	r.Record(d, Caller{ID: caller}, "req_"+id+text, input).Response([]byte(`{"id":"resp_` + id + `","status":"completed","output":[{"id":"msg_` + id + `","text":"re: ` + text + `"}]}`))
}

// expand returns the expanded body, or "" where nothing was expanded.
func (r *Responses) expand(t *testing.T, caller, body string) string {
	t.Helper()
	e, err := r.Expand(openairesponses.Dialect().Stored, Caller{ID: caller}, []byte(body), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		return ""
	}
	return string(e.Body)
}

func newResponses() *Responses {
	r := NewResponses()
	r.SetMaxBytes(64 << 20)
	return r
}

const byID, byItem = `{"previous_response_id":"resp_1"}`, `{"input":[{"type":"item_reference","id":"msg_1"}]}`

func TestReferencesExpand(t *testing.T) {
	r := newResponses()
	r.turn("alice", "1", "", "Hi")
	r.turn("alice", "2", "resp_1", "Go")
	const hi, item = `{"type":"message","role":"user","content":"Hi"}`, `{"id":"msg_1","text":"re: Hi"}`
	for body, want := range map[string]string{
		byID:                                `{"input":[` + hi + `,` + item + `]}`,
		byItem:                              `{"input":[` + item + `]}`,
		`{"previous_response_id":"resp_2"}`: `{"input":[` + hi + `,` + item + `,{"type":"message","role":"user","content":"Go"},{"id":"msg_2","text":"re: Go"}]}`,
		`{"previous_response_id":"resp_3"}`: "",
	} {
		if got := r.expand(t, "alice", body); got != want {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
		if got := r.expand(t, "bob", body); got != "" {
			t.Errorf("another caller got %s", got)
		}
	}
	if got, err := r.Expand(nil, Caller{ID: "alice"}, []byte(byID), 1<<20); got != nil || err != nil {
		t.Errorf("a dialect without references: %v %v", got, err)
	}
}

// TestReferencesThatAreNotFound checks that an ambiguous, evicted or expired reference is
// not found, instead of expanding to a wrong conversation.
func TestReferencesThatAreNotFound(t *testing.T) {
	for name, between := range map[string]func(*Responses){
		"two responses with one id": func(r *Responses) { r.turn("alice", "1", "", "Ho") },
		"evicted": func(r *Responses) {
			r.SetMaxBytes(4 << 10)
			for i := range 10 {
				r.turn("bob", fmt.Sprint(i), "", strings.Repeat("x", 1<<10))
			}
		},
		"turned off": func(r *Responses) { r.SetMaxBytes(0) },
		"expired":    func(*Responses) { time.Sleep(responsesTTL + time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newResponses()
				r.turn("alice", "1", "", "Hi")
				between(r)
				if got := r.expand(t, "alice", byID) + r.expand(t, "alice", byItem); got != "" {
					t.Errorf("found %s", got)
				}
			})
		})
	}
}

// TestResponsesThatAreNotStored checks that a failed response and a request that is too
// large are not stored.
func TestResponsesThatAreNotStored(t *testing.T) {
	r, d := newResponses(), openairesponses.Dialect().Stored
	r.Record(d, Caller{ID: "alice"}, "req_1", []byte(`{"input":"Hi"}`)).Response([]byte(`{"id":"resp_1","status":"failed","output":[]}`))
	if rec := r.Record(d, Caller{ID: "alice"}, "req_2", make([]byte, responsesMaxValue+1)); rec != nil {
		t.Error("a request above the bound has a recorder")
	} else {
		rec.Response([]byte(`{"id":"resp_1","status":"completed","output":[]}`))
	}
	if got := r.expand(t, "alice", byID); got != "" {
		t.Errorf("found %s", got)
	}
}

// TestConversationInUseDoesNotExpire checks that a conversation in use does not expire: each
// turn renews the TTL of all turns before it.
func TestConversationInUseDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponses()
		r.turn("alice", "0", "", "turn")
		for i := range 6 {
			time.Sleep(responsesTTL - time.Minute)
			previous := fmt.Sprintf("resp_%d", i)
			if got := r.expand(t, "alice", `{"previous_response_id":"`+previous+`"}`); strings.Count(got, `"role":"user"`) != i+1 {
				t.Fatalf("turn %d: %s", i, got)
			}
			r.turn("alice", fmt.Sprint(i+1), previous, "turn")
		}
	})
}
