package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// scimClient is an identity provider that manages people of a gateway by SCIM.
type scimClient struct {
	t   *testing.T
	g   *gateway
	key secret.String
}

func newSCIMClient(t *testing.T, g *gateway, k *Keyring, org string) *scimClient {
	t.Helper()
	made, err := k.Create(t.Context(), access.Record{Name: "idp", Org: org, Role: access.KeyManager, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return &scimClient{t, g, made.Text}
}

// send sends a SCIM request and returns the status, the id of the resource, and when it was answered.
func (p *scimClient) send(method, path, body string) (status int, id string, answered time.Time) {
	p.t.Helper()
	req, err := http.NewRequest(method, "http://"+p.g.adminAddress(p.t)+"/scim/v2"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.key.Reveal())
	req.Header.Set("Content-Type", "application/scim+json")
	resp, err := p.g.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	answered = time.Now()
	var out struct {
		ID        string
		Resources []struct{ ID string }
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = json.Unmarshal(text, &out) // a deletion has no body
	if len(out.Resources) == 1 {
		out.ID = out.Resources[0].ID
	}
	return resp.StatusCode, out.ID, answered
}

// create creates a user for a subject and returns its id.
func (p *scimClient) create(subject string) string {
	p.t.Helper()
	status, id, _ := p.send("POST", "/Users", fmt.Sprintf(`{"userName":"%s@example.com","externalId":%q}`, subject, subject))
	if status != http.StatusCreated {
		p.t.Fatalf("POST: %d", status)
	}
	return id
}

// activate sets active of a user and returns when it was answered.
func (p *scimClient) activate(id string, active bool) time.Time {
	p.t.Helper()
	status, _, at := p.send("PATCH", "/Users/"+id, fmt.Sprintf(`{"Operations":[{"op":"Replace","path":"active","value":%t}]}`, active))
	if status != http.StatusOK {
		p.t.Fatalf("PATCH: %d", status)
	}
	return at
}

// TestDeprovisioning removes people by SCIM on one of two nodes while many send requests to both. A
// removed person is refused on a node as soon as a later change arrives there, and nobody else is.
func TestDeprovisioning(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	s, postgres := newSigner(t), storetest.Postgres(t)
	configuration := func() string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\ndata: %q\nstore: { url: %q, peppers: [%q] }\n"+
			"providers: { chat: { protocol: openai-chat, base_url: \"http://%s/v1\", api_key: k-1 } }\nmodels: { m: { targets: [chat/m] } }\n%s",
			t.TempDir(), postgres.URL, strings.Repeat("0", 64), up.Addr, strings.Replace(s.configuration("{ org: acme, team: t }"), "rules:", "scim: {}, rules:", 1))
	}
	first := configuration()
	keys := keyringOf(t, first)
	// Each node reads the changes in their order. A key that is revoked after a removal is the control. Nodes read the
	// controls when they start: a key that is newer than the changes they have read would be looked up at each request.
	var controls []madeKey
	for range 4 {
		controls = append(controls, keys.must(t, quota.Limit{}))
	}
	nodes := []*gateway{start(t, first, pace{}), start(t, configuration(), pace{})}
	idp := newSCIMClient(t, nodes[0], keys, "acme")

	const others = 6
	ann, annID := s.token(t, "ann"), idp.create("ann")
	var sent, refused atomic.Int64
	var mu sync.Mutex
	last := map[string]time.Time{} // when the last admitted request of ann began, by node
	var refuses [2]atomic.Bool     // the node has a change that was made after the removal of ann
	stop := make(chan struct{})
	var load sync.WaitGroup
	admitted := func(g *gateway, token secret.String) bool {
		status, _, _ := g.try(t, "m", token)
		return status == http.StatusOK
	}
	for i := range others {
		token := s.token(t, fmt.Sprint("other", i))
		if i%2 == 0 {
			idp.create(fmt.Sprint("other", i)) // the others are not known to SCIM
		}
		for _, g := range nodes { // a request waits for the creation of its account for a second only
			eventually(t, "another person is admitted", func() bool { return admitted(g, token) })
		}
		load.Go(func() {
			for n := i; !isClosed(stop); n++ {
				if status, body, _ := nodes[n%2].try(t, "m", token); status != http.StatusOK {
					t.Errorf("another person got %d %s", status, body)
				}
				sent.Add(1)
				testrig.Pause(t.Context(), 2*time.Millisecond)
			}
		})
	}
	for i, g := range nodes {
		load.Go(func() {
			for !isClosed(stop) {
				began, late := time.Now(), refuses[i].Load()
				switch status, body, _ := g.try(t, "m", ann); {
				case status == http.StatusOK && late && refuses[i].Load():
					t.Errorf("node %d admits ann after a later change has arrived", i)
				case status == http.StatusOK:
					mu.Lock()
					last[fmt.Sprint("node ", i)] = began
					mu.Unlock()
				case status == http.StatusForbidden && strings.Contains(body, "removed_account"):
					refused.Add(1)
				case status == http.StatusServiceUnavailable && strings.Contains(body, "keys_unavailable"): // her account is not created yet
				default:
					t.Errorf("ann got %d %s", status, body)
				}
				testrig.Pause(t.Context(), 2*time.Millisecond)
			}
		})
	}
	var worst time.Duration
	for _, control := range controls {
		for _, g := range nodes {
			eventually(t, "ann is admitted", func() bool { return admitted(g, ann) })
		}
		for _, g := range nodes {
			eventually(t, "the control is admitted", func() bool { return admitted(g, control.Text) })
		}
		removed := idp.activate(annID, false)
		if _, err := keys.RevokeKey(t.Context(), control.ID); err != nil {
			t.Fatal(err)
		}
		for i, g := range nodes {
			eventually(t, "the revocation arrives", func() bool { return !admitted(g, control.Text) })
			refuses[i].Store(true)
			g.want(t, "m", ann, http.StatusForbidden, "removed_account")
		}
		mu.Lock()
		for _, at := range last {
			worst = max(worst, at.Sub(removed))
		}
		mu.Unlock()
		for i := range refuses {
			refuses[i].Store(false)
		}
		idp.activate(annID, true)
	}

	bob := s.token(t, "bob") // has no account when the user is removed
	idp.activate(idp.create("bob"), false)
	carl, carlID := s.token(t, "carl"), idp.create("carl")
	if status, _, _ := idp.send("DELETE", "/Users/"+carlID, ""); status != http.StatusNoContent {
		t.Errorf("DELETE: %d", status)
	}
	for _, g := range nodes {
		g.want(t, "m", bob, http.StatusForbidden, "removed_account")
		g.want(t, "m", carl, http.StatusForbidden, "removed_account")
	}
	idp.create("carl") // again
	eventually(t, "carl is admitted again", func() bool { return admitted(nodes[0], carl) && admitted(nodes[1], carl) })

	if _, err := keys.RevokeKey(t.Context(), access.PersonID("acme", testIssuer, "carl")); err != nil { // by an operator
		t.Fatal(err)
	}
	_, found, _ := idp.send("GET", "/Users?filter="+url.QueryEscape(`externalId eq "carl"`), "")
	idp.activate(found, false)
	idp.activate(found, true)
	eventually(t, "carl is refused", func() bool {
		status, body, _ := nodes[1].try(t, "m", carl)
		return status == http.StatusForbidden && strings.Contains(body, "revoked_account")
	})
	close(stop)
	load.Wait()
	t.Logf("%d requests of others, %d of ann refused; the last one was admitted %v after the removal was answered", sent.Load(), refused.Load(), worst)
	if sent.Load() < 100 || refused.Load() < 10 {
		t.Error("there was no load")
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestSCIMRequired checks that people without a user are refused if it is required, that the
// endpoints follow the configuration, and that people whom SCIM removed come back if it is off.
func TestSCIMRequired(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	s, data := newSigner(t), t.TempDir()
	configuration := func(scim string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\ndata: %q\nstore: sqlite\nproviders: { chat: { protocol: openai-chat, base_url: \"http://%s/v1\", api_key: k-1 } }\nmodels: { m: { targets: [chat/m] } }\n%s",
			data, up.Addr, strings.Replace(s.configuration("{ org: acme }"), "rules:", scim+"rules:", 1))
	}
	keys := keyringOf(t, configuration(""))
	g := start(t, configuration(""), quick())
	idp := newSCIMClient(t, g, keys, "")
	if status, _, _ := idp.send("GET", "/Users", ""); status != http.StatusNotFound {
		t.Errorf("SCIM is off: %d", status)
	}
	ann, eve := s.token(t, "ann"), s.token(t, "eve")
	g.want(t, "m", ann, http.StatusOK, "")
	g.replace(t, configuration("scim: { required: true }, "))
	eventually(t, "SCIM is on", func() bool { status, _, _ := idp.send("GET", "/Users", ""); return status == http.StatusOK })
	g.want(t, "m", ann, http.StatusForbidden, "removed_account")
	g.want(t, "m", eve, http.StatusForbidden, "removed_account")
	id := idp.create("ann")
	eventually(t, "ann is admitted", func() bool { status, _, _ := g.try(t, "m", ann); return status == http.StatusOK })
	idp.activate(id, false)
	eventually(t, "ann is refused", func() bool { status, _, _ := g.try(t, "m", ann); return status == http.StatusForbidden })
	g.replace(t, configuration(""))
	eventually(t, "SCIM is off", func() bool { status, _, _ := idp.send("GET", "/Users", ""); return status == http.StatusNotFound })
	g.want(t, "m", ann, http.StatusOK, "")
	g.want(t, "m", eve, http.StatusOK, "")
}
