package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// meddler makes a concurrent change between reading a key and changing it.
type meddler struct {
	*store.Store
	meddle func()
}

func (m meddler) UpdateKey(ctx context.Context, id string, edit func(*access.Record) error) (access.Record, error) {
	m.meddle()
	return m.Store.UpdateKey(ctx, id, edit)
}

// entries returns the audit entries of an action, newest first.
func (w *world) entries(action string) []store.Entry {
	w.t.Helper()
	list, err := w.store.AuditLog(w.t.Context(), store.AuditQuery{Action: action, Limit: 1000})
	w.must(err)
	return list
}

// TestEveryChangeIsInTheLog checks that every change has an entry with operator, address, object and the
// hashes before and after.
func TestEveryChangeIsInTheLog(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	id, _, _ := access.Parse(owner)
	key := w.client("a")
	for _, c := range []struct {
		action, method, path, body, object string
		before                             bool
	}{
		{"create-org", "POST", "/orgs", `{"id":"c"}`, "org:c", false},
		{"update-org", "PATCH", "/orgs/a", `{"name":"A"}`, "org:a", true},
		{"set-org-budget", "PUT", "/orgs/a/budget", `{"budget":"1","window_seconds":0}`, "org:a", true},
		{"create-team", "POST", "/orgs/a/teams", `{"id":"u"}`, "team:a/u", false},
		{"update-team", "PATCH", "/orgs/a/teams/t", `{"blocked":true}`, "team:a/t", true},
		{"set-team-budget", "PUT", "/orgs/a/teams/t/budget", `{"budget":"1","window_seconds":0}`, "team:a/t", true},
		{"update-key", "PATCH", "/keys/" + key, `{"name":"n"}`, "key:" + key, true},
		{"set-key-budget", "PUT", "/keys/" + key + "/budget", `{"budget":"1","window_seconds":0}`, "key:" + key, true},
		{"rotate-key", "POST", "/keys/" + key + "/rotate", `{"overlap_seconds":1}`, "key:" + key, true},
		{"revoke-key", "POST", "/keys/" + key + "/revoke", "", "key:" + key, true},
		{"create-key", "POST", "/keys", `{"name":"n","org":"a"}`, "", false},
	} {
		if g := w.send(owner, c.method, prefix+c.path, c.body); g.status/100 != 2 {
			t.Fatalf("%s: %d %s", c.action, g.status, g.body)
		}
		list := w.entries(c.action)
		if len(list) != 1 {
			t.Fatalf("%s has %d entries", c.action, len(list))
		}
		e := list[0]
		if e.Actor != id || e.Address != "127.0.0.1" || e.Detail != "allowed" || e.At.IsZero() || !strings.HasPrefix(e.Object, c.object) ||
			(len(e.Before) == 64) != c.before || len(e.After) != 64 || e.Before == e.After || c.action != "create-org" && e.Org != "a" {
			t.Errorf("%s: %+v", c.action, e)
		}
	}
	if v := read[verdictView](t, w.send(owner, "GET", "/api/v1/audit/verify", ""), 200); !v.Whole || v.Entries < 11 {
		t.Errorf("%+v", v)
	}
	list := read[entryList](t, w.send(owner, "GET", "/api/v1/audit?org=a&limit=4", ""), 200)
	if len(list.Entries) != 4 || list.Next == "" || list.Entries[0].Action != "create-key" || list.Entries[0].Outcome != "allowed" {
		t.Errorf("%+v", list)
	}
	rest := read[entryList](t, w.send(owner, "GET", "/api/v1/audit?org=a&after="+list.Next, ""), 200)
	if len(rest.Entries) != 6 || rest.Next != "" || rest.Entries[0].N >= list.Entries[3].N {
		t.Errorf("%+v", rest)
	}
}

// brokenAudit fails to write.
type brokenAudit struct{ *store.Store }

func (brokenAudit) Audit(context.Context, store.Entry) error { return errors.New("disk full") }

// TestNoChangeWithoutLog checks that changes are refused if the audit log cannot be written. A reload is
// made, because it may repair the store.
func TestNoChangeWithoutLog(t *testing.T) {
	w := newWorld(t)
	owner, key := w.operator(access.Owner, ""), w.client("a")
	w.options.Audit = brokenAudit{w.store}
	w.serve()
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/keys", `{"name":"n","org":"a"}`},
		{"PATCH", "/keys/" + key, `{"name":"other"}`},
		{"POST", "/keys/" + key + "/revoke", ""},
		{"POST", "/keys/" + key + "/rotate", `{"overlap_seconds":1}`},
		{"POST", "/orgs", `{"id":"c"}`},
		{"PATCH", "/orgs/a", `{"blocked":true}`},
		{"POST", "/orgs/a/teams", `{"id":"u"}`},
	} {
		g := w.send(owner, c.method, prefix+c.path, c.body)
		w.refusal(g, http.StatusServiceUnavailable, "store_unavailable")
		if !strings.Contains(g.body, "audit log") || g.header.Get("Retry-After") == "" || strings.Contains(g.body, "gw_") {
			t.Errorf("%s %s: %s", c.method, c.path, g.body)
		}
	}
	r, err := w.store.Key(t.Context(), key)
	if err != nil || r.Name != "test" || !r.Revoked.IsZero() || len(r.Digests) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	keys, _ := w.store.Keys(t.Context(), store.KeyFilter{Org: "a"}, "", 0)
	orgs, _ := w.store.Orgs(t.Context(), "", 0)
	teams, _ := w.store.Teams(t.Context(), "a", "", 0)
	if len(keys) != 1 || len(orgs) != 3 || len(teams) != 1 || orgs[0].Blocked {
		t.Errorf("%d keys, %d organisations, %d teams", len(keys), len(orgs), len(teams))
	}
	read[Configuration](t, w.send(owner, "POST", "/api/v1/config/reload", ""), 200)
	if w.config.reloads != 1 || !strings.Contains(w.log.String(), "audit entry lost") {
		t.Error("the reload was not done, or the gateway's log has nothing of it")
	}
}

// TestPathsOfDenials checks that the audit log has the beginning of a path, whoever sends it, in characters that
// terminals can show.
func TestPathsOfDenials(t *testing.T) {
	w := newWorld(t).serve()
	w.send("", "GET", "/api/v1/keys/%1b%5b31m%0a%e2%80%ae"+strings.Repeat("x", 20_000), "")
	list := w.entries("get-key")
	if len(list) != 1 || !strings.HasPrefix(list[0].Object, "/api/v1/keys/\ufffd[31m\ufffd\ufffdxxx") || len([]rune(list[0].Object)) > 201 {
		t.Errorf("%+v", list)
	}
}

// TestDenialsAreInTheLog checks that denials are logged, and that their number is bounded.
func TestDenialsAreInTheLog(t *testing.T) {
	w := newWorld(t).serve()
	keeper := w.operator(access.KeyManager, "a")
	id, _, _ := access.Parse(keeper)
	w.send("", "GET", "/api/v1/keys", "")
	w.refusal(w.send(keeper, "GET", "/api/v1/config", ""), http.StatusForbidden, "role_not_allowed")
	list := w.entries("get-config")
	if len(list) != 1 || list[0].Actor != id || list[0].Detail != "denied: role_not_allowed" || list[0].Object != "/api/v1/config" {
		t.Errorf("%+v", list)
	}
	if list := w.entries("list-keys"); len(list) != 1 || list[0].Actor != "" || !strings.HasPrefix(list[0].Detail, "denied") {
		t.Errorf("%+v", list)
	}
	for range 2 * denialsPerMinute {
		w.send(keeper, "GET", "/api/v1/config", "")
	}
	if n := len(w.entries("get-config")); n != denialsPerMinute-1 {
		t.Errorf("%d entries", n)
	}
}

func TestDenialsOfAMinute(t *testing.T) {
	now := time.Unix(1000, 0)
	b := denialLog{now: func() time.Time { return now }}
	for i := range denialsPerMinute + 5 {
		if fits, missed := b.take(); fits != (i < denialsPerMinute) || missed != 0 {
			t.Errorf("%d: %v, %d", i, fits, missed)
		}
	}
	now = now.Add(time.Minute)
	if fits, missed := b.take(); !fits || missed != 5 {
		t.Errorf("%v, %d", fits, missed)
	}
}

// TestDigest checks that the hash does not depend on the order of members.
func TestDigest(t *testing.T) {
	one, err := digest(map[string]any{"b": 1, "a": []int{2}, "n": int64(9007199254740993)})
	if err != nil {
		t.Fatal(err)
	}
	two, _ := digest(struct {
		B int   `json:"b"`
		N int64 `json:"n"`
		A []int `json:"a"`
	}{1, 9007199254740993, []int{2}})
	other, _ := digest(map[string]any{"b": 1, "a": []int{2}, "n": int64(9007199254740992)})
	none, _ := digest(nil)
	if one != two || one == other || len(one) != 64 || none != "" {
		t.Error(one, two, other, none)
	}
}
