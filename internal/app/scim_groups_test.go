package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// group creates a group with members and returns its id.
func (p *scimClient) group(externalID, name string, members ...string) string {
	p.t.Helper()
	var list []string
	for _, id := range members {
		list = append(list, fmt.Sprintf(`{"value":%q}`, id))
	}
	status, id, _ := p.send("POST", "/Groups", fmt.Sprintf(`{"displayName":%q,"externalId":%q,"members":[%s]}`, name, externalID, strings.Join(list, ",")))
	if status != http.StatusCreated {
		p.t.Fatalf("POST: %d", status)
	}
	return id
}

// patchGroup changes a group and returns when that was answered.
func (p *scimClient) patchGroup(id, operation string) time.Time {
	p.t.Helper()
	status, _, at := p.send("PATCH", "/Groups/"+id, `{"Operations":[`+operation+`]}`)
	if status != http.StatusNoContent {
		p.t.Fatalf("PATCH: %d", status)
	}
	return at
}

// explainToken says which rule admits a token.
func explainToken(t *testing.T, configuration string, token secret.String) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	why, err := Options{Config: file, Env: noEnvironment}.ExplainToken(t.Context(), token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return why
}

// TestSCIMGroups gives and takes models by groups of SCIM on two nodes: by membership, by the name of a
// group and by the user. A group of another directory and a role give nothing.
func TestSCIMGroups(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	s, postgres := newSigner(t), storetest.Postgres(t)
	configuration := func(attribute string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\ndata: %q\nstore: { url: %q, peppers: [%q] }\n"+
			"providers: { chat: { protocol: openai-chat, base_url: \"http://%s/v1\", api_key: k-1 } }\nmodels: { m: { targets: [chat/m] } }\n%s",
			t.TempDir(), postgres.URL, strings.Repeat("0", 64), up.Addr,
			strings.Replace(s.configuration("{ when: { groups: g-ops }, org: acme, role: auditor }, { when: { groups: g-search }, org: acme, team: search }"), "rules:", "scim: { groups: true, group_attribute: "+attribute+" }, rules:", 1))
	}
	first := configuration("externalId")
	keys := keyringOf(t, first)
	controls := []madeKey{keys.must(t, quota.Limit{}), keys.must(t, quota.Limit{})} // as in TestDeprovisioning
	nodes := []*gateway{start(t, first, pace{}), start(t, configuration("externalId"), pace{})}
	idp, foreign := newSCIMClient(t, nodes[0], keys, "acme"), newSCIMClient(t, nodes[0], keys, "other")
	all := func(what string, token secret.String, want int) {
		t.Helper()
		for _, g := range nodes {
			eventually(t, what, func() bool { status, _, _ := g.try(t, "m", token); return status == want })
		}
	}

	ann, annID := s.token(t, "ann"), idp.create("ann")
	foreign.group("g-search", "Search", foreign.create("ann"))
	for _, g := range nodes {
		g.want(t, "m", ann, http.StatusForbidden, "not_admitted")
	}
	search := idp.group("g-search", "Search", annID)
	all("a member is admitted", ann, http.StatusOK)
	if why := explainToken(t, first, ann); why != "team search, because groups (from SCIM) contains g-search" {
		t.Error(why)
	}
	if why := explainToken(t, first, s.token(t, "eve", "g-search")); why != "team search, because groups contains g-search" {
		t.Error(why)
	}
	idp.patchGroup(search, `{"op":"replace","path":"displayName","value":"g-ops"}`) // a name is no externalId
	var worst time.Duration
	for _, control := range controls { // revoked after the removal: a node that knows that knows the removal
		all("the control is admitted", control.Text, http.StatusOK)
		removed := idp.patchGroup(search, fmt.Sprintf(`{"op":"remove","path":"members[value eq \"%s\"]"}`, annID))
		if _, err := keys.RevokeKey(t.Context(), control.ID); err != nil {
			t.Fatal(err)
		}
		for _, g := range nodes {
			eventually(t, "the revocation arrives", func() bool { status, _, _ := g.try(t, "m", control.Text); return status == http.StatusUnauthorized })
			g.want(t, "m", ann, http.StatusForbidden, "not_admitted")
			worst = max(worst, time.Since(removed))
		}
		idp.patchGroup(search, fmt.Sprintf(`{"op":"add","path":"members","value":[{"value":%q}]}`, annID))
		all("a member is admitted again", ann, http.StatusOK)
	}
	t.Logf("all nodes refused a removed member within %v", worst)

	idp.group("g-ops", "Operators", annID)
	bob := s.token(t, "bob")
	idp.group("g-other", "g-search", idp.create("bob")) // named like the id of another group
	later := idp.create("carl")
	idp.patchGroup(search, fmt.Sprintf(`{"op":"add","path":"members","value":[{"value":%q}]}`, later))
	all("a later member is admitted", s.token(t, "carl"), http.StatusOK)
	var list struct{ Entries []struct{} }
	for _, g := range nodes {
		g.want(t, "m", bob, http.StatusForbidden, "not_admitted")
		if status := g.operate(t, ann, "/audit", &list); status != http.StatusForbidden {
			t.Errorf("a group of SCIM opens the admin API: %d", status)
		}
	}
	idp.activate(annID, false)
	all("a removed person is refused", ann, http.StatusForbidden)
	idp.activate(annID, true)
	all("a restored person is admitted", ann, http.StatusOK)

	if status, _, _ := idp.send("PATCH", "/Users/"+annID, `{"Operations":[{"op":"replace","path":"externalId","value":"ann-2"}]}`); status != http.StatusOK {
		t.Fatal(status)
	}
	all("a user of another name gives nothing to the earlier one", ann, http.StatusForbidden)
	all("it gives it to its new name", s.token(t, "ann-2"), http.StatusOK)

	byName := configuration("displayName")
	nodes[0].replace(t, byName)
	nodes[1].replace(t, byName)
	all("the group is known by its name", bob, http.StatusOK)
	_, other, _ := idp.send("GET", `/Groups?filter=displayName+eq+"g-search"`, "")
	idp.patchGroup(other, `{"op":"replace","path":"displayName","value":"g-renamed"}`)
	all("a renamed group gives nothing", bob, http.StatusForbidden)
	if status, _, _ := idp.send("DELETE", "/Groups/"+search, ""); status != http.StatusNoContent {
		t.Error(status)
	}
}
