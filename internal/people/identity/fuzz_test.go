package identity

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// served answers every request with one text.
type served string

func (s served) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(string(s))), Request: r}, nil
}

// FuzzKeys reads any text as a discovery document and as a key set. Keys that come of it are public and of
// a bounded length.
func FuzzKeys(f *testing.F) {
	const issuer = "https://idp.example.com"
	f.Add(`{"issuer":"` + issuer + `","jwks_uri":"` + issuer + `/keys","keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"k"}]}`)
	f.Add(`{"keys":[{"kty":"oct","k":"AA"},{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, source := range []string{"", issuer + "/keys"} {
			s := &keySet{issuer: issuer, source: source, client: &http.Client{Transport: bounded{served(text)}}, now: time.Now}
			keys, err := s.read(t.Context())
			if err == nil && len(keys) == 0 || len(keys) > maxKeys {
				t.Errorf("%d keys, %v", len(keys), err)
			}
			for _, k := range keys {
				if !usable(k) {
					t.Errorf("%+v is no public key for signatures", k)
				}
			}
		}
	})
}

// FuzzClaims reads any text as the claims of a token. Claims that are read are the same to a reader that
// does not look at the case of names.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{`{"iss":"i","sub":"s","aud":["a"],"exp":1,"groups":["a"],"a":{"b.c":{"d":true}}}`, `{"Sub":"x"}`, `{"sub":"a","sub":"b"}`, `null`, `[[[]]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_ = claimedIssuer("e30." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".x")
		c, err := parseClaims([]byte(text))
		if err != nil {
			return
		}
		var loose struct {
			Issuer  any `json:"iss"`
			Subject any `json:"sub"`
		}
		if err := json.Unmarshal([]byte(text), &loose); err != nil {
			return // a number out of range
		}
		for name, value := range map[string]any{"iss": loose.Issuer, "sub": loose.Subject} {
			if a, isText := value.(string); isText && a != c[name] {
				t.Errorf("%s: %q and %q", name, a, c[name])
			}
		}
		_ = c.values("a.b.c.d")
	})
}
