package admin

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestStoreUnavailable checks that a frozen or dead store gives 503, never 401 or 404, and that routes
// without a store keep working for known operators.
func TestStoreUnavailable(t *testing.T) {
	server := storetest.Postgres(t)
	w := newWorldAt(t, server.URL, 2*time.Second).serve()
	owner, stranger, client := w.operator(access.Owner, ""), w.operator(access.Owner, ""), w.client("a")
	read[whoView](t, w.send(owner, "GET", "/api/v1/whoami", ""), 200) // this one is known from here on

	type request struct{ method, path, body, store string }
	some := []request{
		{"GET", "/keys/" + client, "", "store of keys"},
		{"POST", "/orgs", `{"id":"c"}`, "audit log"},
		{"GET", "/usage", "", "store of the ledger"},
	}
	all := append(slices.Clone(some),
		request{"GET", "/keys", "", "store of keys"},
		request{"POST", "/keys", `{"name":"n","org":"a"}`, "store of keys"},
		request{"GET", "/orgs/a/teams/t", "", "store of keys"},
		request{"GET", "/requests", "", "store of the ledger"},
		request{"GET", "/audit", "", "audit log"},
		request{"GET", "/audit/verify", "", "audit log"},
	)
	check := func(how string, requests []request) {
		t.Helper()
		for _, path := range []string{"/whoami", "/targets", "/config", "/nodes", "/nodes/gw-1.a/config"} {
			if g := w.send(owner, "GET", prefix+path, ""); g.status != 200 {
				t.Errorf("%s: %s: %d %s", how, path, g.status, g.body)
			}
		}
		if g := w.send(owner, "POST", prefix+"/config/reload", ""); g.status != 200 {
			t.Errorf("%s: reload: %d %s", how, g.status, g.body)
		}
		for _, c := range requests {
			g := w.send(owner, c.method, prefix+c.path, c.body)
			if g.status != http.StatusServiceUnavailable || g.header.Get("Retry-After") == "" || !strings.Contains(g.body, c.store) {
				t.Errorf("%s: %s %s: %d %s", how, c.method, c.path, g.status, g.body)
			}
		}
		if g := w.send(stranger, "GET", prefix+"/whoami", ""); g.status != http.StatusServiceUnavailable || g.header.Get("Retry-After") == "" {
			t.Errorf("%s: a key that is not known: %d %s", how, g.status, g.body)
		}
	}
	server.Freeze()
	check("frozen", some) // each costs the store's patience
	server.Thaw()
	server.Kill()
	check("dead", all)
	w.must(server.Start())
	testrig.Eventually(t, "the store comes back", func() bool { return w.send(owner, "GET", "/api/v1/keys", "").status == 200 })
	testrig.Eventually(t, "the key is known", func() bool { return w.send(stranger, "GET", "/api/v1/whoami", "").status == 200 })
	read[tenantView](t, w.send(owner, "POST", "/api/v1/orgs", `{"id":"c"}`), http.StatusCreated)
	if v := read[verdictView](t, w.send(owner, "GET", "/api/v1/audit/verify", ""), 200); !v.Whole {
		t.Errorf("%+v", v)
	}
	for _, canary := range []string{owner, stranger, pepperText} {
		if strings.Contains(w.log.String(), canary) {
			t.Error("the log has a secret")
		}
	}
}
