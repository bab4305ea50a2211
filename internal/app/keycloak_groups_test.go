//go:build keycloak

package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// listed reads a list of Keycloak's admin API.
func (r *realm) listed(path string) (list []struct{ ID, Name, Username string }) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.call(http.MethodGet, path, nil)), &list); err != nil {
		r.t.Fatal(err)
	}
	return list
}

// TestKeycloakGroups signs people in with tokens of a Keycloak that have no groups, as those of Entra above 200
// groups. Keycloak has no SCIM client: the test reads people, groups and members from Keycloak and sends the
// requests that a provider sends.
func TestKeycloakGroups(t *testing.T) {
	folder := os.Getenv("ISOGLOSS_KEYCLOAK")
	if folder == "" {
		t.Fatal("ISOGLOSS_KEYCLOAK names no folder with Keycloak; run make identity")
	}
	r := &realm{t: t, server: storetest.Keycloak(t, folder), client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	t.Cleanup(r.client.CloseIdleConnections)
	r.call(http.MethodPost, "", map[string]any{"realm": "main", "enabled": true, "accessTokenLifespan": 3600})
	r.call(http.MethodPost, "/main/groups", map[string]any{"name": "llm-search"})
	mapper := func(name, kind string, config map[string]string) map[string]any {
		config["access.token.claim"] = "true"
		return map[string]any{"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": config}
	}
	audience := mapper("audience", "oidc-audience-mapper", map[string]string{"included.custom.audience": "isogloss"})
	groups := mapper("groups", "oidc-group-membership-mapper", map[string]string{"claim.name": "groups", "full.path": "false"})
	for client, mappers := range map[string][]map[string]any{"cli": {audience, groups}, "without-groups": {audience}} {
		r.call(http.MethodPost, "/main/clients", map[string]any{"clientId": client, "publicClient": true, "directAccessGrantsEnabled": true, "protocolMappers": mappers})
	}
	for name, in := range map[string][]string{"ann": {"llm-search"}, "bob": {}} {
		r.call(http.MethodPost, "/main/users", map[string]any{"username": name, "email": name + "@example.com", "firstName": name, "lastName": "Example", "enabled": true,
			"groups": in, "credentials": []map[string]any{{"type": "password", "value": userPassword}}})
	}

	up := upstreamtest.New(t)
	up.Answer(echo)
	search := r.listed("/main/groups")[0]
	configuration := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
data: %q
store: sqlite
providers: { chat: { protocol: openai-chat, base_url: "http://%s/v1" } }
models: { m: { targets: [chat/m] } }
identity:
  issuers:
    - issuer: %q
      audiences: [isogloss]
      scim: { groups: true }
      rules: [{ when: { groups: %q }, org: acme, team: search }, { when: { groups: llm-search }, org: acme, team: token }]
`, t.TempDir(), up.Addr, r.issuer(), search.ID)
	keys := keyringOf(t, configuration)
	g := start(t, configuration, pace{})
	idp := newSCIMClient(t, g, keys, "acme")

	ann, err := r.token("main", "without-groups", "ann", userPassword)
	if err != nil {
		t.Fatal(err)
	}
	bob, err := r.token("main", "without-groups", "bob", userPassword)
	if err != nil {
		t.Fatal(err)
	}
	withGroups, err := r.token("main", "cli", "ann", userPassword)
	if err != nil {
		t.Fatal(err)
	}
	explains := func(want string) {
		t.Helper()
		if why, err := (Options{Config: g.file, Env: noEnvironment}).ExplainToken(t.Context(), ann.Reveal()); err != nil || why != want {
			t.Errorf("%q, %v; want %q", why, err, want)
		}
	}
	g.want(t, "m", ann, http.StatusForbidden, "not_admitted")
	users := map[string]string{} // ids of SCIM by those of Keycloak
	for _, u := range r.listed("/main/users") {
		_, users[u.ID], _ = idp.send("POST", "/Users", fmt.Sprintf(`{"userName":%q,"externalId":%q}`, u.Username, u.ID))
	}
	group := idp.group(search.ID, search.Name)
	sync := func() time.Time {
		t.Helper()
		members := []map[string]string{}
		for _, m := range r.listed("/main/groups/" + search.ID + "/members") {
			members = append(members, map[string]string{"value": users[m.ID]})
		}
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return idp.patchGroup(group, fmt.Sprintf(`{"op":"replace","path":"members","value":%s}`, text))
	}
	sync()
	eventually(t, "ann is admitted by the group", func() bool { status, _, _ := g.try(t, "m", ann); return status == http.StatusOK })
	explains("team search, because groups (from SCIM) contains " + search.ID)
	g.want(t, "m", bob, http.StatusForbidden, "not_admitted")

	var annID string
	for _, m := range r.listed("/main/groups/" + search.ID + "/members") {
		annID = m.ID
	}
	r.call(http.MethodDelete, "/main/users/"+annID+"/groups/"+search.ID, nil)
	removed := sync()
	eventually(t, "ann is refused", func() bool { status, _, _ := g.try(t, "m", ann); return status == http.StatusForbidden })
	t.Logf("a person whom Keycloak removed from the group was refused %v after the answer of SCIM", time.Since(removed))
	explains("refused: the token is valid, but no rule of the gateway admits its owner; ask the gateway's operator")
	g.want(t, "m", withGroups, http.StatusOK, "") // the token still has the group's name, which the second rule reads
}
