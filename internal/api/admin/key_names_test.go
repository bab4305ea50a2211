package admin

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/api/export"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// named creates a client's key with a name and a request in the ledger, and returns its id.
func (w *world) named(name, org, request string) string {
	id, _ := w.key(access.Record{Name: name, Org: org, Team: "t", Models: []string{"*"}})
	w.append("of "+id, []usage.Row{{ID: request, Org: org, Team: "t", Key: id, Began: time.Now().Add(-time.Minute), Model: "m", Status: 200, Outcome: usage.Answered, Cost: new(usage.Money(2_000_000))}})
	return id
}

const namedRequest = "40000000-0000-4000-8000-000000000001"

// TestKeyNames checks that lists, sums and files have the name of a key beside its id.
func TestKeyNames(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	id := w.named("=search", "a", namedRequest)
	if r := read[amounts.RequestView](t, w.send(owner, "GET", "/api/v1/requests/"+namedRequest, ""), 200); r.Key != id || r.KeyName != "=search" {
		t.Errorf("%+v", r)
	}
	named := map[string]string{}
	for _, r := range read[requestList](t, w.send(owner, "GET", "/api/v1/requests", ""), 200).Requests {
		named[r.Key] = r.KeyName
	}
	if len(named) != 3 || named[id] != "=search" || named["ka"] != "" {
		t.Error(named)
	}
	sums := read[usageView](t, w.send(owner, "GET", "/api/v1/usage?group=key", ""), 200).Sums
	found := false
	for _, s := range sums {
		found = found || s.Key == id && s.KeyName == "=search"
	}
	if !found {
		t.Errorf("%+v", sums)
	}
	for _, path := range []string{"requests?format=", "usage?group=key&format="} {
		g := w.send(owner, "GET", "/api/v1/"+path+"csv", "")
		records, err := csv.NewReader(strings.NewReader(g.body)).ReadAll()
		if err != nil || !slices.Contains(records[0], "key_name") || strings.Count(g.body, ",'=search,") != 1 {
			t.Errorf("%s: %v %s", path, err, g.body)
		}
	}
	g := w.send(owner, "GET", "/api/v1/requests?format=parquet", "")
	rows, err := parquet.Read[export.Request](bytes.NewReader([]byte(g.body)), int64(len(g.body)))
	if err != nil || len(rows) != 3 || rows[0].KeyName != "=search" && rows[1].KeyName != "=search" && rows[2].KeyName != "=search" {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestFilterByName checks that filters of the ledger accept the name of a key, of the operator's organisation only.
func TestFilterByName(t *testing.T) {
	w := newWorld(t).serve()
	owner, billing := w.operator(access.Owner, ""), w.operator(access.Billing, "b")
	id := w.named("search", "a", namedRequest)
	for _, key := range []string{id, "search"} {
		if list := read[requestList](t, w.send(owner, "GET", "/api/v1/requests?key="+key, ""), 200); len(list.Requests) != 1 || list.Requests[0].ID != namedRequest {
			t.Errorf("%s: %+v", key, list)
		}
		if u := read[usageView](t, w.send(owner, "GET", "/api/v1/usage?key="+key, ""), 200); u.Total.Requests != 1 {
			t.Errorf("%s: %+v", key, u.Total)
		}
		if g := w.send(owner, "GET", "/api/v1/requests?format=csv&key="+key, ""); strings.Count(g.body, "\n") != 2 {
			t.Errorf("%s: %s", key, g.body)
		}
		read[refusalList](t, w.send(owner, "GET", "/api/v1/refusals?key="+key, ""), 200)
		if list := read[requestList](t, w.send(billing, "GET", "/api/v1/requests?key="+key, ""), 200); len(list.Requests) != 0 {
			t.Errorf("%s of another organisation: %+v", key, list)
		}
	}
	if g := w.send(owner, "GET", "/api/v1/usage?key=serch", ""); g.status != http.StatusUnprocessableEntity || !strings.Contains(g.body, `did you mean \"search\"?`) {
		t.Errorf("%d %s", g.status, g.body)
	}
	if g := w.send(billing, "GET", "/api/v1/usage?key=serch", ""); strings.Contains(g.body, "search") {
		t.Errorf("the name of another organisation's key: %s", g.body)
	}
	if u := read[usageView](t, w.send(owner, "GET", "/api/v1/usage?key=ka", ""), 200); u.Total.Requests != 1 { // the store does not have it
		t.Errorf("%+v", u.Total)
	}
	again := w.named("search", "a", "40000000-0000-4000-8000-000000000002")
	if g := w.send(owner, "GET", "/api/v1/usage?key=search", ""); g.status != http.StatusUnprocessableEntity || !strings.Contains(g.body, id) || !strings.Contains(g.body, again) {
		t.Errorf("%d %s", g.status, g.body)
	}
	_, err := w.store.RevokeKey(t.Context(), id, time.Now())
	w.must(err)
	if list := read[requestList](t, w.send(owner, "GET", "/api/v1/requests?key=search", ""), 200); len(list.Requests) != 1 || list.Requests[0].Key != again {
		t.Errorf("%+v", list)
	}
	for _, odd := range []string{"%00", "%FF", "'", "%25", "🙂"} {
		if g := w.send(owner, "GET", "/api/v1/requests?key="+odd, ""); g.status >= 500 {
			t.Errorf("%s: %d %s", odd, g.status, g.body)
		}
	}
}

// TestKeySpend checks the spend and last use in a list and of one key, and who sees them.
func TestKeySpend(t *testing.T) {
	w := newWorld(t).serve()
	id := w.named("search", "a", namedRequest)
	unused := w.client("a")
	for role, may := range map[access.Role]bool{access.Owner: true, access.Auditor: true, access.Billing: true, access.KeyManager: false} {
		as := w.operator(role, "")
		g := w.send(as, "GET", "/api/v1/keys?org=a&team=t&spent=30d", "")
		if !may {
			w.refusal(g, http.StatusForbidden, "role_not_allowed")
			w.refusal(w.send(as, "GET", "/api/v1/keys/"+id+"?spent=30d", ""), http.StatusForbidden, "role_not_allowed")
			continue
		}
		views := map[string]keyView{}
		for _, k := range read[keyList](t, g, 200).Keys {
			views[k.ID] = k
		}
		if k := views[id]; len(views) != 2 || k.Spent != "0.002" || time.Since(k.LastUsed) > 2*time.Hour || k.LastUsed.Truncate(time.Hour) != k.LastUsed {
			t.Errorf("%s: %+v", role, k)
		}
		if k := views[unused]; k.Spent != "0" || !k.LastUsed.IsZero() {
			t.Errorf("%s: %+v", role, k)
		}
		if k := read[keyView](t, w.send(as, "GET", "/api/v1/keys/"+id+"?spent=30d", ""), 200); k.Spent != "0.002" || k.LastUsed.IsZero() {
			t.Errorf("%s: %+v", role, k)
		}
	}
	owner := w.operator(access.Owner, "")
	if g := w.send(owner, "GET", "/api/v1/keys", ""); strings.Contains(g.body, "last_used") || strings.Contains(g.body, `"spent":`) {
		t.Errorf("not asked for: %s", g.body)
	}
	if list := read[keyList](t, w.send(owner, "GET", "/api/v1/keys?name=search", ""), 200); len(list.Keys) != 1 || list.Keys[0].ID != id {
		t.Errorf("%+v", list)
	}
	w.refusal(w.send(owner, "GET", "/api/v1/keys?spent=1d", ""), http.StatusUnprocessableEntity, "invalid")
}

// nameless is a store of keys that has no names now.
type nameless struct{ keyStore }

type keyStore = Keys // has a method Keys, too

func (nameless) KeyNames(context.Context, []string) (map[string]string, error) {
	return nil, errors.New("the store is down")
}

// TestWithoutNames checks that the ledger is read while the names of keys are not available.
func TestWithoutNames(t *testing.T) {
	w := newWorld(t)
	w.options.Keys = nameless{w.options.Keys}
	w.serve()
	owner := w.operator(access.Owner, "")
	w.named("search", "a", namedRequest)
	if list := read[requestList](t, w.send(owner, "GET", "/api/v1/requests", ""), 200); len(list.Requests) != 3 || list.Requests[0].KeyName != "" {
		t.Errorf("%+v", list)
	}
}
