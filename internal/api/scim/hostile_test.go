package scim

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

// TestHostileProvider sends resources and changes that no identity provider sends. Each is refused as a
// mistake of the provider, or leaves a user that can be read.
func TestHostileProvider(t *testing.T) {
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	ann := w.user("ann")
	group := w.want(201, "POST /v2/Groups", `{"displayName":"g"}`).at("id")
	const user = `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"bob","externalId":"x","active":true,"displayName":"B","name":{"givenName":"B","familyName":"C"},"emails":[{"value":"b@example.com","type":"work"}]}`
	tried := 0
	for _, c := range []struct{ what, honest string }{
		{"PUT /v2/Users/" + ann, strings.Replace(user, "bob", "ann", 1)}, {"POST /v2/Users", user},
		{"PATCH /v2/Users/" + ann, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":{"op":"replace","path":"displayName","value":"x"}}`},
		{"PUT /v2/Groups/" + group, `{"displayName":"g","externalId":"x","members":[]}`},
	} {
		for _, a := range hostile.Answers(c.honest, "http://127.0.0.1") {
			tried++
			body := a.Text
			if strings.HasPrefix(c.what, "PATCH") { // the operation is the entry of a list
				body = strings.Replace(strings.Replace(body, `"Operations":{`, `"Operations":[{`, 1), `}`, `}]`, 1)
			}
			if g := w.send(c.what, body); g.status >= 500 || g.status < 200 {
				t.Errorf("%s %s: %d %.300s", c.what, a.Name, g.status, g.text)
			} else if g.status == http.StatusCreated {
				w.want(204, "DELETE /v2/Users/"+g.at("id"), "")
			}
		}
		w.want(200, "GET /v2/Users/"+ann, "")
	}
	if tried < 300 {
		t.Errorf("%d bodies", tried)
	}
}

// FuzzFilter reads any text as the filter of a provider. What is read has no more conditions than allowed.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{`userName eq "ann"`, `id eq "a" and active eq true`, `userName eq "a\"b"`, `emails[type eq "work"].value eq "x"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if terms, err := parseFilter(text); err == nil && (len(terms) == 0 || len(terms) > maxTerms) {
			t.Errorf("%q: %d conditions", text, len(terms))
		}
	})
}
