package admin

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// canaries are secrets in the forms in which they might leak.
type canaries map[string]string

func (c canaries) add(name, text string) {
	c[name] = text
	if _, sec, ok := access.Parse(text); ok { // the part that opens
		c[name+", its secret"] = sec.Reveal()
	}
}

// in returns the names of the canaries in a text.
func (c canaries) in(text string) []string {
	var found []string
	for name, canary := range c {
		for form, shape := range map[string]string{
			"plain": canary, "hex": hex.EncodeToString([]byte(canary)), "base64": base64.RawStdEncoding.EncodeToString([]byte(canary)),
			"half": canary[len(canary)/2:],
		} {
			if strings.Contains(text, shape) {
				found = append(found, name+" ("+form+")")
			}
		}
	}
	return found
}

// TestNoSecretAnywhere checks that a secret is in the response that creates it only, and neither in the
// log, the audit log nor the store's file.
func TestNoSecretAnywhere(t *testing.T) {
	w := newWorld(t)
	w.config.err = nil
	w.serve()
	secrets := canaries{}
	secrets.add("pepper", pepperText)
	secrets.add("provider's key", providerText)
	owner := w.operator(access.Owner, "")
	keeper := w.operator(access.KeyManager, "a")
	secrets.add("owner's key", owner)
	secrets.add("key manager's key", keeper)

	made := read[keyMade](t, w.send(owner, "POST", "/api/v1/keys", `{"name":"n","org":"a","models":["*"]}`), http.StatusCreated)
	if secrets.add("client's key", made.Text); len(secrets.in(made.Text)) == 0 {
		t.Fatal("the canaries do not sing")
	}
	again := read[keyMade](t, w.send(owner, "POST", "/api/v1/keys/"+made.Key.ID+"/rotate", `{"overlap_seconds":60}`), 200)
	if found := secrets.in(fmt.Sprint(again)); len(found) != 0 {
		t.Errorf("the answer to a rotation has an older secret: %v", found)
	}
	secrets.add("rotated key", again.Text)
	everything := &strings.Builder{}
	note := func(g got) {
		fmt.Fprintln(everything, g.status, g.header, g.body)
	}

	for n, op := range w.operations() {
		for _, key := range []string{owner, keeper, made.Text, again.Text, ""} {
			if op.name == "create-key" || op.name == "rotate-key" {
				continue // they have the secret that they make; it is looked at above
			}
			for _, tenant := range []string{"a", "b", nobody} {
				note(w.ask(op, key, tenant, n))
			}
		}
	}
	// Secrets in the wrong place are not quoted.
	for _, secret := range []string{owner, made.Text, providerText} {
		for _, body := range []string{
			`{"secret":"` + secret + `"}`, `{"name":["` + secret + `"]}`, `{"name":"x","expires":"` + secret[:20] + `"}`,
			`{"limits":{"budget":"` + secret[:20] + `"}}`, `{"models":["ok",{"k":"` + secret + `"}]}`, `"` + secret + `"`, secret,
		} {
			note(w.send(owner, "PATCH", "/api/v1/keys/"+made.Key.ID, body))
			note(w.send(owner, "POST", "/api/v1/orgs", body))
		}
	}
	w.config.mistakes = []openapi.Mistake{{Line: 3, Location: "providers.up", Message: "wrong"}}
	note(w.send(owner, "POST", "/api/v1/config/reload", ""))
	w.config.mistakes, w.config.err = nil, errors.New("cannot be read")
	note(w.send(owner, "POST", "/api/v1/config/reload", ""))

	if found := secrets.in(everything.String()); len(found) != 0 {
		t.Errorf("answers have %v", found)
	}
	if found := secrets.in(w.log.String()); len(found) != 0 {
		t.Errorf("the log has %v", found)
	}
	entries, err := w.store.AuditLog(t.Context(), store.AuditQuery{Limit: 1000})
	w.must(err)
	text, err := json.Marshal(entries)
	w.must(err)
	if found := secrets.in(string(text)); len(found) != 0 || len(entries) < 10 {
		t.Errorf("the audit log has %v in %d entries", found, len(entries))
	}
	for _, suffix := range []string{"", "-wal"} {
		file, err := os.ReadFile(w.file + suffix)
		if err != nil && suffix == "" {
			t.Fatal(err)
		}
		if found := secrets.in(string(file)); len(found) != 0 {
			t.Errorf("the store's file%s has %v", suffix, found)
		}
	}
}
