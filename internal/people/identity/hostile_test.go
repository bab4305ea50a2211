package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

// TestHostileKeys reads discovery documents and key sets that no identity provider sends.
func TestHostileKeys(t *testing.T) {
	var current atomic.Pointer[hostile.Server]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	defer server.Close()
	p := newProvider(t)
	key, err := json.Marshal(p.keys[0].Public())
	if err != nil {
		t.Fatal(err)
	}
	var set map[string]any
	if err := json.Unmarshal(key, &set); err != nil {
		t.Fatal(err)
	}
	document := `{"issuer":"` + server.URL + `","jwks_uri":"` + server.URL + `/keys","authorization_endpoint":"` + server.URL + `/a","token_endpoint":"` + server.URL + `/t","id_token_signing_alg_values_supported":["RS256"]}`
	tried := 0
	for source, honest := range map[string]string{"": document, server.URL + "/keys": `{"keys":[],"other":"x"}`} {
		answers := func(elsewhere string) []hostile.Answer {
			all := hostile.Answers(honest, elsewhere)
			for _, a := range hostile.Answers(string(key), elsewhere) { // a key of the set
				if a.Text != "" {
					all = append(all, hostile.Fixed("key: "+a.Name, `{"keys":[`+a.Text+`]}`))
				}
			}
			return all
		}
		tried += hostile.Try(t, answers, func(ctx context.Context, h *hostile.Server) {
			current.Store(h)
			readHostile(ctx, t, h, server.URL, source)
		})
	}
	if tried < 300 {
		t.Errorf("%d answers", tried)
	}
}

func readHostile(ctx context.Context, t *testing.T, h *hostile.Server, issuer, source string) {
	t.Helper()
	client, err := NewClient("")
	if err != nil {
		t.Fatal(err)
	}
	s := &keySet{issuer: issuer, source: source, client: client, now: time.Now}
	keys, err := s.read(ctx)
	for _, k := range keys {
		if err == nil && (!k.Valid() || !k.IsPublic()) {
			t.Errorf("%s: a key that is not valid", h.Answer.Name)
		}
	}
}

// TestKeySetWithAnError checks that a key set is used as a whole or not at all.
func TestKeySetWithAnError(t *testing.T) {
	const key = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"k"}`
	if keys, err := parseKeys([]byte(`{"keys":[` + key + `]}`)); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	for _, text := range []string{`<html>`, `{"keys":[` + key + `],"keys":5}`} {
		if _, err := parseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), "is not JSON") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLongKey ignores RSA keys whose signatures would take seconds to check.
func TestLongKey(t *testing.T) {
	n := make([]byte, 64<<10)
	n[0], n[len(n)-1] = 0x80, 1
	text, err := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "RSA", "e": "AQAB", "n": base64.RawURLEncoding.EncodeToString(n)}}})
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := parseKeys(text); err == nil {
		t.Errorf("%d keys", len(keys))
	}
}
