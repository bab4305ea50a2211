package scim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	entra = "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0"
	okta  = "https://example.okta.com/oauth2/default"
)

// world is the handler over a real store, with two issuers and an operator's key of organisation a.
type world struct {
	t       *testing.T
	store   *store.Store
	peppers access.Peppers
	url     string
	key     string
}

// both runs a test on each kind of store.
func both(t *testing.T, test func(w *world)) {
	t.Run("sqlite", func(t *testing.T) { test(newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "isogloss.db"))) })
	t.Run("postgres", func(t *testing.T) { test(newWorld(t, storetest.Postgres(t).URL)) })
}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	peppers, err := access.NewPeppers([]secret.String{"pepper-canary-0123456789abcdef-0123456789abcdef"})
	w := &world{t: t, peppers: peppers}
	w.must(err)
	w.store, err = store.Open(t.Context(), url, store.Options{Migrate: true, Timeout: time.Minute})
	w.must(err)
	t.Cleanup(func() { _ = w.store.Close() })
	for _, org := range []string{"a", "b"} {
		w.must(w.store.CreateTenant(t.Context(), store.Tenant{Org: org, Name: org, Created: time.Now()}))
	}
	guard := admin.NewGuard(admin.Options{
		Operators: access.NewDirectory(access.DirectoryOptions{Source: w.store, Peppers: peppers}), Audit: w.store, Loopback: true,
	})
	server := httptest.NewServer(New(Options{Guard: guard, Store: w.store, Issuers: func() []Issuer {
		return []Issuer{{entra, "/scim/v2"}, {okta, "/scim/okta/v2"}}
	}}))
	t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	w.url, w.key = server.URL, w.operator(access.KeyManager, "a")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// operator creates an operator's key and returns its text.
func (w *world) operator(role access.Role, org string, endpoints ...string) string {
	w.t.Helper()
	id, sec, whole := access.Mint(access.EnvAdmin)
	w.must(w.store.CreateKey(w.t.Context(), access.Record{ID: id, Name: "idp", Role: role, Org: org, Endpoints: endpoints, Created: time.Now(), Digests: []access.Digest{w.peppers.Digest(id, sec)}}))
	return whole.Reveal()
}

// got is a response.
type got struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// send sends a request below /scim, such as "GET /v2/Users". A query may have spaces.
func (w *world) send(what, body string, edit ...func(*http.Request)) got {
	w.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	path, query, _ := strings.Cut(path, "?")
	if name, value, ok := strings.Cut(query, "filter="); ok {
		value, rest, _ := strings.Cut(value, "&")
		query = name + "filter=" + url.QueryEscape(value) + "&" + rest
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+"/scim"+path+"?"+query, strings.NewReader(body))
	w.must(err)
	r.Header.Set("Authorization", "Bearer "+w.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/scim+json; charset=utf-8")
	}
	for _, e := range edit {
		e(r)
	}
	resp, err := http.DefaultClient.Do(r)
	w.must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	w.must(err)
	g := got{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &g.body) // a response without a body has none
	return g
}

// as sends a request with another key.
func as(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }
}

// want sends a request, checks its status and returns the response. Errors must be SCIM errors.
func (w *world) want(status int, what, body string, edit ...func(*http.Request)) got {
	w.t.Helper()
	g := w.send(what, body, edit...)
	if g.status != status {
		w.t.Fatalf("%s: %d, want %d: %.500s", what, g.status, status, g.text)
	}
	if status == http.StatusNoContent {
		return g
	}
	if kind := g.header.Get("Content-Type"); kind != "application/scim+json" {
		w.t.Errorf("%s: %s", what, kind)
	}
	if status >= 400 && (g.at("schemas.0") != "urn:ietf:params:scim:api:messages:2.0:Error" || g.at("status") != fmt.Sprint(status) || g.at("detail") == "") {
		w.t.Errorf("%s: not a SCIM error: %s", what, g.text)
	}
	return g
}

// at returns a value of the body as text, by a path such as emails.0.value.
func (g got) at(path string) string {
	var v any = g.body
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(in) {
				return ""
			}
			v = in[i]
		default:
			return ""
		}
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// has checks values of a response.
func (w *world) has(g got, values map[string]string) {
	w.t.Helper()
	for path, want := range values {
		if got := g.at(path); got != want {
			w.t.Errorf("%s is %q, want %q: %.500s", path, got, want, g.text)
		}
	}
}

// person saves the account of a person, as a request with a token does, and says whether the person
// is admitted.
func (w *world) person(org, issuer, attribute, value string) bool {
	w.t.Helper()
	r, err := w.store.SavePerson(w.t.Context(), access.Record{ID: access.PersonID(org, issuer, value), Org: org, Models: []string{"*"}, SCIMName: access.SCIMName(issuer, attribute, value)})
	w.must(err)
	return r.Removed.IsZero()
}

// account says whether a person who has an account is admitted, without another request.
func (w *world) account(org, issuer, value string) bool {
	w.t.Helper()
	r, err := w.store.Key(w.t.Context(), access.PersonID(org, issuer, value))
	w.must(err)
	return r.Removed.IsZero()
}

// user creates a user and returns its id.
func (w *world) user(name string, edit ...func(*http.Request)) string {
	w.t.Helper()
	return w.want(201, "POST /v2/Users", fmt.Sprintf(`{"schemas":[%q],"userName":%q,"externalId":%q,"active":true}`, userSchema, name, "x-"+name), edit...).at("id")
}

// patch returns the body of a PATCH with operations.
func patch(operations ...string) string {
	return `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[` + strings.Join(operations, ",") + `]}`
}

// actions returns the actions of the audit log, newest first, with their objects' kinds.
func (w *world) actions(org string) []string {
	w.t.Helper()
	entries, err := w.store.AuditLog(w.t.Context(), store.AuditQuery{Org: org})
	w.must(err)
	var out []string
	for _, e := range entries {
		kind, _, _ := strings.Cut(cmp.Or(e.Object, "-"), ":")
		out = append(out, e.Action+" "+kind+" "+e.Detail)
	}
	return out
}
