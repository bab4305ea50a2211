package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/admin/client"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

// owner authenticates every request as an owner.
type owner struct{}

func (owner) Operator(*http.Request) (access.Record, *llm.Error) {
	return access.Record{ID: "a test", Role: access.Owner}, nil
}

// newAPI returns an API over a new store.
func newAPI(t *testing.T) (http.Handler, *store.Store) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "isogloss.db"), store.Options{Migrate: true, Timeout: testrig.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	testrig.EventuallyNil(t, "the tables are there", s.Ready)
	peppers, err := access.NewPeppers([]secret.String{"pepper-0123456789abcdef-0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	return admin.New(admin.Options{Operators: owner{}, Peppers: peppers, Keys: s, Tenants: s, Ledger: s, Audit: s}), s
}

// connection is a transport to a server, as one to the socket of a gateway would be.
type connection struct{ server *httptest.Server }

func (c connection) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Host = strings.TrimPrefix(c.server.URL, "http://")
	return c.server.Client().Transport.RoundTrip(r)
}

// TestTransports does the same in this process and over a connection, and expects the same results and the
// same audit entries.
func TestTransports(t *testing.T) {
	var logs [2]string
	for i, name := range []string{"in process", "over a connection"} {
		t.Run(name, func(t *testing.T) {
			api, s := newAPI(t)
			transport := client.InProcess(api)
			if i == 1 {
				server := httptest.NewServer(api)
				defer server.Close()
				transport = connection{server}
			}
			manage(t, client.New(transport))
			entries, err := s.AuditLog(t.Context(), store.AuditQuery{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Actor != "a test" || e.After == "" {
					t.Errorf("%+v", e)
				}
				kind, _, _ := strings.Cut(e.Object, ":")
				logs[i] += e.Action + " " + kind + " " + e.Detail + "\n"
			}
		})
	}
	if logs[0] != logs[1] || strings.Count(logs[0], "\n") != 11 || !strings.Contains(logs[0], "create-team team allowed") {
		t.Errorf("the audit log after\n%s\nand after\n%s", logs[0], logs[1])
	}
}

// manage makes nine changes, and one that fails and has two entries.
func manage(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := c.CreateKey(ctx, admin.KeyBody{Name: "ci", Org: "Acme Corp", Team: "Web 100%", Models: []string{"*"}})
	must(err)
	if made.Text == "" || made.Key.Org != "Acme Corp" || made.Key.Team != "Web 100%" {
		t.Errorf("%+v", made.Key)
	}
	k, err := c.Key(ctx, "ci")
	must(err)
	k, err = c.UpdateKey(ctx, k, admin.KeyChange{Team: new("ops"), Endpoints: &[]string{}, Limits: &admin.LimitsChange{Budgets: &[]admin.Budget{{Budget: "5", Window: 3600}, {Budget: "7"}}}})
	must(err)
	if k.Team != "ops" || len(k.Limits.Budgets) != 2 {
		t.Errorf("%+v", k)
	}
	k, err = c.UpdateKey(ctx, k, admin.KeyChange{Team: new(""), Limits: &admin.LimitsChange{Budgets: &[]admin.Budget{}}})
	must(err)
	if k.Team != "" || k.Limits.Budget != "0" || len(k.Limits.Budgets) != 0 {
		t.Errorf("%+v", k)
	}
	again, err := c.RotateKey(ctx, k.ID, time.Hour)
	must(err)
	if again.Text == made.Text {
		t.Error("the same secret")
	}
	var wrong *client.Error
	if _, err := c.UpdateTenant(ctx, "Acme Corp", "nobody", admin.TenantChange{}); !errors.As(err, &wrong) || wrong.Status != http.StatusNotFound {
		t.Error(err)
	}
	team, err := c.UpdateTenant(ctx, "Acme Corp", "ops", admin.TenantChange{Blocked: new(true)})
	must(err)
	if !team.Blocked || team.Org != "Acme Corp" || team.ID != "ops" {
		t.Errorf("%+v", team)
	}
	if _, err := c.CreateOrg(ctx, admin.TenantBody{ID: "Acme Corp"}); err == nil || !strings.Contains(err.Error(), "exists already") { // two entries
		t.Error(err)
	}
	if _, err := c.CreateOrg(ctx, admin.TenantBody{ID: ".."}); err == nil || !strings.Contains(err.Error(), "body.id: expected text that matches") {
		t.Error(err)
	}
	for range 2 { // the second time nothing changes
		if k, err = c.RevokeKey(ctx, "ci"); err != nil || k.State != "revoked" {
			t.Errorf("%+v, %v", k, err)
		}
	}
	if teams, err := c.Teams(ctx, ""); err != nil || len(teams) != 2 {
		t.Errorf("%+v, %v", teams, err)
	}
}

// forged sends the same response to each request.
type forged struct {
	status int
	body   func() io.Reader
}

func (f forged) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f.status, Header: http.Header{}, Body: io.NopCloser(f.body()), Request: r}, nil
}

// endless is JSON that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestHugeResponses checks that the client reads neither a response nor a list without an end.
func TestHugeResponses(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusForbidden} {
		c := client.New(forged{status, func() io.Reader { return endless{} }})
		if _, err := c.Tenant(t.Context(), "acme", ""); err == nil || status == http.StatusOK && !strings.Contains(err.Error(), "more than 32 MiB") {
			t.Errorf("%d: %v", status, err)
		}
	}
	c := client.New(forged{http.StatusOK, func() io.Reader { return strings.NewReader(`{"keys":[],"next":"again"}`) }})
	if _, err := c.Keys(t.Context(), url.Values{}); err == nil || !strings.Contains(err.Error(), "more than 1000 pages") {
		t.Error(err)
	}
	c = client.New(forged{http.StatusOK, func() io.Reader { return strings.NewReader(`<html>`) }})
	if _, err := c.Keys(t.Context(), url.Values{}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}
