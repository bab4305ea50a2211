package admin

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestKeyLifecycle creates, uses, changes, rotates and revokes a key.
func TestKeyLifecycle(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")

	made := read[keyMade](t, w.send(owner, "POST", "/api/v1/keys", `{"name":"ci","org":"a","team":"t","models":["fast","openai/*"],
		"endpoints":["chat_completions"],"networks":["127.0.0.0/8"],"criticality":"normal","expires":"2099-01-31T00:00:00Z",
		"limits":{"requests_per_minute":60,"budget":"12.5","window_seconds":86400}}`), http.StatusCreated)
	k := made.Key
	if id, _, ok := access.Parse(made.Text); !ok || id != k.ID || !strings.HasPrefix(made.Text, "gw_live_") {
		t.Errorf("%q is not the key %s", made.Text, k.ID)
	}
	if k.Name != "ci" || k.Org != "a" || k.Team != "t" || k.State != "active" || len(k.Models) != 2 || len(k.Networks) != 1 || len(k.Secrets) != 1 ||
		!reflect.DeepEqual(k.Limits, limits{Requests: 60, Budget: "12.5", Window: 86400}) || k.Expires.Year() != 2099 || k.Revision == 0 {
		t.Errorf("%+v", k)
	}
	path := "/api/v1/keys/" + k.ID

	k = read[keyView](t, w.send(owner, "PATCH", path, `{"name":"ci 2","models":["fast"],"expires":"never","limits":{"tokens_per_minute":7}}`), 200)
	if k.Name != "ci 2" || len(k.Models) != 1 || !k.Expires.IsZero() || !reflect.DeepEqual(k.Limits, limits{Requests: 60, Tokens: 7, Budget: "12.5", Window: 86400}) || k.Criticality != "normal" || len(k.Endpoints) != 1 {
		t.Errorf("%+v", k)
	}
	k = read[keyView](t, w.send(owner, "PUT", path+"/budget", `{"budget":"0.000000001","window_seconds":0}`), 200)
	if !reflect.DeepEqual(k.Limits, limits{Requests: 60, Tokens: 7, Budget: "0.000000001"}) {
		t.Errorf("%+v", k.Limits)
	}

	again := read[keyMade](t, w.send(owner, "POST", path+"/rotate", `{"overlap_seconds":3600}`), 200)
	if id, _, ok := access.Parse(again.Text); !ok || id != k.ID || again.Text == made.Text || len(again.Key.Secrets) != 2 {
		t.Errorf("%+v", again)
	}
	for _, text := range []string{made.Text, again.Text} {
		w.refusal(w.send(text, "GET", "/api/v1/whoami", ""), http.StatusForbidden, "client_key") // it is known
	}
	third := read[keyMade](t, w.send(owner, "POST", path+"/rotate", `{"overlap_seconds":0}`), 200)
	if len(third.Key.Secrets) != 1 {
		t.Errorf("%+v", third.Key.Secrets)
	}

	k = read[keyView](t, w.send(owner, "POST", path+"/revoke", ""), 200)
	if k.State != "revoked" || k.Revoked.IsZero() {
		t.Errorf("%+v", k)
	}
	w.refusal(w.send(owner, "POST", path+"/rotate", `{"overlap_seconds":0}`), http.StatusConflict, "revoked")
	w.refusal(w.send(owner, "PATCH", path, `{"name":"x"}`), http.StatusConflict, "revoked")
	if got := read[keyView](t, w.send(owner, "GET", path, ""), 200); got.State != "revoked" {
		t.Errorf("%+v", got)
	}
}

func TestOperatorsKeys(t *testing.T) {
	w := newWorld(t).serve()
	owner, admin := w.operator(access.Owner, ""), w.operator(access.Admin, "")
	auditor, keeper := w.operator(access.Auditor, "a"), w.operator(access.KeyManager, "a")

	made := read[keyMade](t, w.send(owner, "POST", "/api/v1/keys", `{"name":"ann","role":"billing","org":"a"}`), http.StatusCreated)
	if !strings.HasPrefix(made.Text, "gw_admin_") || made.Key.Role != "billing" {
		t.Errorf("%+v", made.Key)
	}
	if left := time.Until(made.Key.Expires); left < 89*24*time.Hour || left > 91*24*time.Hour {
		t.Errorf("an operator's key lives %s", left)
	}
	who := read[whoView](t, w.send(made.Text, "GET", "/api/v1/whoami", ""), 200)
	if who.Key.ID != made.Key.ID || who.Held != "a" || len(who.May) == 0 {
		t.Errorf("%+v", who)
	}
	path := "/api/v1/keys/" + made.Key.ID
	for name, key := range map[string]string{"admin": admin, "keeper": keeper} {
		w.refusal(w.send(key, "POST", "/api/v1/keys", `{"name":"x","role":"owner"}`), http.StatusForbidden, "owner_only")
		w.refusal(w.send(key, "POST", "/api/v1/keys", `{"name":"x","role":"auditor","org":"a"}`), http.StatusForbidden, "owner_only")
		for _, g := range []got{
			w.send(key, "GET", path, ""), w.send(key, "PATCH", path, `{"name":"x"}`), w.send(key, "POST", path+"/revoke", ""),
			w.send(key, "POST", path+"/rotate", `{"overlap_seconds":0}`),
		} {
			w.refusal(g, http.StatusNotFound, "not_found")
		}
		if list := w.send(key, "GET", "/api/v1/keys", ""); strings.Contains(list.body, made.Key.ID) {
			t.Errorf("%s sees operators' keys in the list", name)
		}
	}
	read[keyView](t, w.send(auditor, "GET", path, ""), 200)
	w.refusal(w.send(owner, "POST", "/api/v1/keys", `{"name":"x","role":"owner","org":"a"}`), http.StatusUnprocessableEntity, "invalid")
	second := read[keyMade](t, w.send(owner, "POST", "/api/v1/keys", `{"name":"x","role":"owner"}`), http.StatusCreated)
	read[whoView](t, w.send(second.Text, "GET", "/api/v1/whoami", ""), 200)
}

// TestSeveralBudgets sets the budgets of a key, a team and an organisation, all at once and the first
// alone.
func TestSeveralBudgets(t *testing.T) {
	w := newWorld(t).serve()
	owner, billing := w.operator(access.Owner, ""), w.operator(access.Billing, "")
	key, _ := w.key(access.Record{Org: "a"})
	two := []budgetBody{{"5", 86400}, {"100", 2592000}}
	for _, path := range []string{"/api/v1/keys/" + key, "/api/v1/orgs/a", "/api/v1/orgs/a/teams/t"} {
		check := func(g got, want limits) {
			t.Helper()
			if l := read[struct {
				Limits limits `json:"limits"`
			}](t, g, 200).Limits; !reflect.DeepEqual(l, want) {
				t.Errorf("%s: %+v, want %+v", path, l, want)
			}
		}
		check(w.send(owner, "PATCH", path, `{"limits":{"budgets":[{"budget":"5","window_seconds":86400},{"budget":"100","window_seconds":2592000}]}}`), limits{Budget: "5", Window: 86400, Budgets: two})
		check(w.send(owner, "PATCH", path, `{"limits":{"requests_per_minute":9}}`), limits{Requests: 9, Budget: "5", Window: 86400, Budgets: two})
		check(w.send(billing, "PUT", path+"/budget", `{"budget":"6","window_seconds":3600}`), limits{Requests: 9, Budget: "6", Window: 3600, Budgets: []budgetBody{{"6", 3600}, two[1]}})
		w.refusal(w.send(billing, "PUT", path+"/budget", `{"budget":"6","window_seconds":2592000}`), 422, "invalid")
		check(w.send(billing, "PUT", path+"/budget", `{"budget":"0","window_seconds":0}`), limits{Requests: 9, Budget: "100", Window: 2592000})
		check(w.send(billing, "PUT", path+"/budget", `{"budgets":[{"budget":"5","window_seconds":86400},{"budget":"100","window_seconds":2592000}]}`), limits{Requests: 9, Budget: "5", Window: 86400, Budgets: two})
		for _, wrong := range []string{`{}`, `{"budget":"1"}`, `{"window_seconds":1}`, `{"budgets":[],"budget":"1","window_seconds":0}`, `{"budgets":[{"budget":"0","window_seconds":0}]}`,
			`{"budgets":[{"budget":"1","window_seconds":1},{"budget":"2","window_seconds":1}]}`, `{"budgets":[{"budget":"1"}]}`,
			`{"budgets":[{"budget":"1","window_seconds":1},{"budget":"1","window_seconds":2},{"budget":"1","window_seconds":3},{"budget":"1","window_seconds":4},{"budget":"1","window_seconds":5}]}`} {
			w.refusal(w.send(billing, "PUT", path+"/budget", wrong), 422, "invalid")
		}
		check(w.send(billing, "PUT", path+"/budget", `{"budgets":[]}`), limits{Requests: 9, Budget: "0"})
	}
}

// TestKeyManagersChangeNoBudgets checks that key managers change limits of keys and teams
// but not their budgets, which would lift what billing has set.
func TestKeyManagersChangeNoBudgets(t *testing.T) {
	w := newWorld(t).serve()
	keeper, billing := w.operator(access.KeyManager, "a"), w.operator(access.Billing, "a")
	for _, path := range []string{"/api/v1/keys/" + w.client("a"), "/api/v1/orgs/a/teams/t"} {
		for _, limits := range []string{`{"budget":"0"}`, `{"budget":"1000"}`, `{"window_seconds":1}`, `{"budgets":[]}`} {
			w.refusal(w.send(keeper, "PATCH", path, `{"limits":`+limits+`}`), http.StatusForbidden, "budget_role")
		}
		if got := w.send(keeper, "PATCH", path, `{"limits":{"requests_per_minute":5}}`); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		if got := w.send(billing, "PUT", path+"/budget", `{"budget":"7","window_seconds":60}`); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestControlCharactersInParameters checks that parameters with control characters are
// refused before a store sees them. PostgreSQL rejects a NUL in text.
func TestControlCharactersInParameters(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	for _, path := range []string{
		"/api/v1/keys?org=%00", "/api/v1/keys?after=a%00", "/api/v1/keys/a%00", "/api/v1/keys/%0a/limits", "/api/v1/orgs/a%00/teams",
		"/api/v1/usage?model=a%00", "/api/v1/requests?after=%00", "/api/v1/requests/%00", "/api/v1/audit?after=%00",
	} {
		if got := w.send(owner, "GET", path, ""); got.status/100 != 4 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestPages checks that lists are paged in order and completely.
func TestPages(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	want := map[string]bool{}
	for range 7 {
		want[w.client("a")] = true
	}
	w.client("b")
	after, pages := "", 0
	for {
		list := read[keyList](t, w.send(owner, "GET", "/api/v1/keys?org=a&team=t&limit=3&after="+after, ""), 200)
		for _, k := range list.Keys {
			if !want[k.ID] {
				t.Errorf("%s is not wanted, or came twice", k.ID)
			}
			delete(want, k.ID)
		}
		pages++
		if after = list.Next; after == "" {
			break
		}
	}
	if len(want) != 0 || pages != 3 {
		t.Errorf("%d pages, and %d are missing", pages, len(want))
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=-1", "limit=x", "unknown=1", "team=t"} {
		w.refusal(w.send(owner, "GET", "/api/v1/keys?"+query, ""), http.StatusUnprocessableEntity, "invalid")
	}
}

// TestConcurrentChange checks that a concurrent change is not overwritten.
func TestConcurrentChange(t *testing.T) {
	w := newWorld(t)
	owner, id := w.operator(access.Owner, ""), w.client("a")
	w.options.Keys = meddler{w.store, func() {
		_, err := w.store.UpdateKey(t.Context(), id, func(r *access.Record) error { r.Name = "other"; return nil })
		w.must(err)
	}}
	w.serve()
	w.refusal(w.send(owner, "PATCH", "/api/v1/keys/"+id, `{"name":"mine"}`), http.StatusConflict, "changed")
	if r, err := w.store.Key(t.Context(), id); err != nil || r.Name != "other" {
		t.Errorf("%s, %v", r.Name, err)
	}
	entries := w.entries("update-key")
	if len(entries) != 2 || entries[1].Detail != "allowed" || entries[0].Detail != "failed: changed" {
		t.Errorf("%+v", entries)
	}
}

// TestPeople checks that the account of a person is shown and revoked like a key, and has no secret.
func TestPeople(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	id := access.PersonID("a", "https://idp.example.com", "subject-1")
	_, err := w.store.SavePerson(t.Context(), access.Record{ID: id, Name: "ada", Org: "a", Models: []string{"*"}, Created: time.Now()})
	w.must(err)
	path := "/api/v1/keys/" + id
	if k := read[keyView](t, w.send(owner, "GET", path, ""), 200); k.Name != "ada" || k.State != "active" {
		t.Errorf("%+v", k)
	}
	w.refusal(w.send(owner, "POST", path+"/rotate", `{"overlap_seconds":0}`), http.StatusConflict, "no_secret")
	if k := read[keyView](t, w.send(owner, "POST", path+"/revoke", ""), 200); k.State != "revoked" {
		t.Errorf("%+v", k)
	}
}

// TestTeamOfOperator refuses a team on an operator's key, which would count for nothing.
func TestTeamOfOperator(t *testing.T) {
	w := newWorld(t).serve()
	_, owner := w.key(access.Record{Role: access.Owner})
	for _, role := range []string{"owner", "admin", "billing", "auditor", "key-manager"} {
		org := `"org":"a",`
		if role == "owner" || role == "admin" {
			org = ""
		}
		if g := w.send(owner, "POST", "/api/v1/keys", `{"name":"n",`+org+`"team":"t","role":"`+role+`"}`); g.status != 422 || !strings.Contains(g.body, "belongs to no team") {
			t.Errorf("%s: %d %s", role, g.status, g.body)
		}
	}
}
