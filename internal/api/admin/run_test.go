package admin

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	promptCanary = "prompt-canary-of-a-run"
	runText      = `{"path":"/v1/chat/completions?x=1","request":"{\"model\":\"m\",\"prompt\":\"` + promptCanary + `\"}"}`
)

func runPath(key string) string { return "/api/v1/keys/" + key + "/run" }

// lastEntry returns the newest entry of the audit log, and how many there are.
func (w *world) lastEntry() (store.Entry, int) {
	w.t.Helper()
	all, err := w.store.AuditLog(w.t.Context(), store.AuditQuery{Limit: 1000})
	w.must(err)
	if len(all) == 0 {
		return store.Entry{}, 0
	}
	return all[0], len(all)
}

// TestRunRequest checks what reaches the client port: the path and the body of the request, and nothing
// of the operator but the address. The audit log has one entry, without the text.
func TestRunRequest(t *testing.T) {
	w := newWorld(t).serve()
	owner, id := w.operator(access.Owner, ""), w.client("a")
	var seen *http.Request
	var body string
	w.runner.serve = func(rw http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		w.must(err)
		seen, body = r, string(text)
		rw.Header().Set("Isogloss-Fidelity", "exact")
		rw.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(rw, "data: x\n\n")
	}
	smuggle := func(r *http.Request) {
		for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key", "Isogloss-Hops", "Isogloss-Tags", "Isogloss-Criticality", "Isogloss-Fidelity-Mode", "Idempotency-Key", "Traceparent", "X-Forwarded-For", "Cookie", "Openai-Organization"} {
			if name != "X-Api-Key" { // in which the gateway would look for the operator's key first
				r.Header.Set(name, "smuggled")
			}
		}
	}
	g := w.send(owner, "POST", runPath(id), runText, smuggle)
	if g.status != http.StatusTeapot || g.body != "data: x\n\n" || g.header.Get("Isogloss-Fidelity") != "exact" || g.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%+v", g)
	}
	want := http.Header{"Content-Type": {"application/json"}, "User-Agent": {runUserAgent}}
	if seen == nil || fmt.Sprint(seen.Header) != fmt.Sprint(want) || seen.URL.String() != "/v1/chat/completions?x=1" || body != `{"model":"m","prompt":"`+promptCanary+`"}` || !strings.HasPrefix(seen.RemoteAddr, "127.0.0.1:") {
		t.Errorf("the client port got %+v with %q", seen, body)
	}
	e, n := w.lastEntry()
	if n != 1 || e.Action != "run-request" || e.Object != "key:"+id || e.Org != "a" || e.Actor == "" || e.Detail != "allowed: request 00000000-0000-4000-8000-00000000000f, model m\uFFFD"+strings.Repeat("x", 126)+"…" {
		t.Errorf("%d entries, the last: %+v", n, e)
	}
	view := read[entryList](t, w.send(owner, "GET", "/api/v1/audit", ""), 200).Entries[0]
	if view.Outcome != "allowed" || view.Code != "" || !strings.HasPrefix(view.Detail, "request 00000000-0000-4000-8000-00000000000f, model m\uFFFD") {
		t.Errorf("%+v", view)
	}
	if text := fmt.Sprint(e) + w.log.String(); strings.Contains(text, promptCanary) {
		t.Errorf("the audit log or the log has text of the request: %s", text)
	}
}

// TestRunRefused checks keys that cannot be run as, and requests that are not run.
func TestRunRefused(t *testing.T) {
	w := newWorld(t).serve()
	owner, auditor, foreign := w.operator(access.Owner, ""), w.operator(access.Auditor, ""), w.operator(access.KeyManager, "b")
	mine := w.operator(access.KeyManager, "a")
	client := w.client("a")
	past := time.Now().Add(-time.Hour)
	revoked, _ := w.key(access.Record{Org: "a", Models: []string{"*"}, Revoked: past})
	expired, _ := w.key(access.Record{Org: "a", Models: []string{"*"}, Expires: past})
	elsewhere, _ := w.key(access.Record{Org: "a", Models: []string{"*"}, Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	near, _ := w.key(access.Record{Org: "a", Models: []string{"*"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	operator, _ := w.key(access.Record{Role: access.Billing, Org: "a"})
	person := access.PersonID("a", "https://idp.example.com", "ann")
	_, err := w.store.SavePerson(t.Context(), access.Record{ID: person, Name: "ann", Org: "a", Models: []string{"*"}, Created: time.Now()})
	w.must(err)
	for _, tt := range []struct {
		name, key, as, body string
		status              int
		code, audit         string
	}{
		{"a key of the own organisation", mine, client, runText, 200, "", "allowed"},
		{"the operator's address counts", owner, near, runText, 200, "", "allowed"},
		{"from another network", owner, elsewhere, runText, 403, "address_not_allowed", "failed: refused"},
		{"revoked", owner, revoked, runText, 401, "revoked_api_key", "failed: refused"},
		{"expired", owner, expired, runText, 401, "expired_api_key", "failed: refused"},
		{"an operator's key", owner, operator, runText, 409, "operator_key", ""},
		{"a person's account", owner, person, runText, 403, "person_only", ""},
		{"another organisation", foreign, client, runText, 404, "not_found", ""},
		{"a role that may not", auditor, client, runText, 403, "role_not_allowed", "denied: role_not_allowed"},
		{"another path", owner, client, `{"path":"/v1/models","request":"{}"}`, 422, "invalid", ""},
		{"the admin API", owner, client, `{"path":"/api/v1/config/reload","request":"{}"}`, 422, "invalid", ""},
		{"another host", owner, client, `{"path":"//example.com/v1/chat/completions","request":"{}"}`, 422, "invalid", ""},
		{"a URL", owner, client, `{"path":"http://example.com/v1/chat/completions","request":"{}"}`, 422, "invalid", ""},
		{"a broken path", owner, client, `{"path":"/%zz","request":"{}"}`, 422, "invalid", ""},
		{"another member", owner, client, `{"path":"/v1/chat/completions","request":"{}","headers":{}}`, 422, "invalid", ""},
		{"too large", owner, client, `{"path":"/v1/chat/completions","request":"` + strings.Repeat("x", maxRunBody) + `"}`, 413, "too_large", ""},
	} {
		_, before := w.lastEntry()
		g := w.send(tt.key, "POST", runPath(tt.as), tt.body)
		if g.status != tt.status || !strings.Contains(g.body, tt.code) {
			t.Errorf("%s: %d %.300s", tt.name, g.status, g.body)
		}
		e, after := w.lastEntry()
		if tt.audit == "" && after != before || tt.audit != "" && (after != before+1 || !strings.HasPrefix(e.Detail, tt.audit)) {
			t.Errorf("%s: %d further entries, the last: %+v", tt.name, after-before, e)
		}
	}
	page := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	w.refusal(w.send(owner, "POST", runPath(client), runText, page), 403, "origin_not_allowed")
	form := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }
	w.refusal(w.send(owner, "POST", runPath(client), runText, form), 415, "content_type")
}

// TestRunOfAPerson checks that a person may use the own account.
func TestRunOfAPerson(t *testing.T) {
	w := newWorld(t)
	ann := access.PersonID("a", "https://idp.example.com", "ann")
	record, err := w.store.SavePerson(t.Context(), access.Record{ID: ann, Name: "ann", Org: "a", Models: []string{"*"}, Created: time.Now()})
	w.must(err)
	record.Role = access.KeyManager
	w.options.Operators = fixedOperator(record)
	w.serve()
	if g := w.send("token", "POST", runPath(ann), runText); g.status != 200 {
		t.Errorf("%d %s", g.status, g.body)
	}
}

// TestRunNeedsTheAuditLog checks that nothing runs that the audit log does not have.
func TestRunNeedsTheAuditLog(t *testing.T) {
	w := newWorld(t)
	w.options.Audit = brokenAudit{w.store}
	w.serve()
	ran := false
	w.runner.serve = func(http.ResponseWriter, *http.Request) { ran = true }
	if g := w.send(w.operator(access.Owner, ""), "POST", runPath(w.client("a")), runText); g.status != 503 && g.status != 529 || ran {
		t.Errorf("%d %s, ran: %t", g.status, g.body, ran)
	}
}

// TestRunsAtOnce checks how many requests an operator runs at once.
func TestRunsAtOnce(t *testing.T) {
	w := newWorld(t).serve()
	owner, other, id := w.operator(access.Owner, ""), w.operator(access.Admin, ""), w.client("a")
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan int)
	w.runner.serve = func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	}
	for range maxRuns {
		go func() { done <- w.send(owner, "POST", runPath(id), runText).status }()
		<-begun
	}
	w.refusal(w.send(owner, "POST", runPath(id), runText), http.StatusTooManyRequests, "too_many_runs")
	go func() { done <- w.send(other, "POST", runPath(id), runText).status }()
	<-begun
	close(end)
	for range maxRuns + 1 {
		if status := <-done; status != 200 {
			t.Error(status)
		}
	}
	w.runner.serve = nil
	if g := w.send(owner, "POST", runPath(id), runText); g.status != 200 {
		t.Errorf("%d %s", g.status, g.body)
	}
}

// fixedOperator authenticates everybody as one operator.
type fixedOperator access.Record

func (o fixedOperator) Operator(*http.Request) (access.Record, *llm.Error) {
	return access.Record(o), nil
}
