package relay

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestErrorsHoldNoCredential checks that an upstream's error reaches neither the client nor
// the log with a credential of the provider, wherever it is configured and however the
// upstream writes it.
func TestErrorsHoldNoCredential(t *testing.T) {
	const header, query = "header-credential-1", "query-credential-22"
	for _, credential := range []string{upstreamKey, header, query} {
		for name, form := range map[string]string{
			"plain":       credential,
			"JSON escape": strings.Replace(credential, "-", `\u002d`, 1),
			"percent":     strings.ReplaceAll(credential, "-", "%2D"),
			"hexadecimal": hex.EncodeToString([]byte(credential)),
			"base64":      base64.StdEncoding.EncodeToString([]byte("user:" + credential)),
		} {
			plain, err := url.PathUnescape(strings.ReplaceAll(form, `\u002d`, "-"))
			if err != nil {
				t.Fatal(err)
			}
			object := `{"error":{"message":"` + form + ` is wrong","type":"` + form + `","param":"` + form + `","code":"` + form + `"}}`
			for _, l := range lanes() {
				t.Run(name+"/"+l.name, func(t *testing.T) {
					g := newGateway(t, l.change, func(g *gateway) {
						g.provider.Headers = http.Header{"X-Custom-Auth": {"Token " + header}}
						g.provider.BaseURL.RawQuery = "api-version=1&code=" + query
					})
					for place, script := range map[string]upstreamtest.Script{
						"status":       upstreamtest.JSON(http.StatusBadRequest, object, "X-Request-Id", form, "Retry-After", form),
						"first event":  upstreamtest.Stream("data: " + object + "\n\n"),
						"second event": upstreamtest.Stream(textChunk + "data: " + object + "\n\n"),
					} {
						g.up.Answer(script)
						resp, got, _ := g.post(t, l.path, l.body)
						for where, text := range map[string]string{"body": got, "log": g.log.String(), "id": resp.Header.Get("Isogloss-Upstream-Request-Id"), "header": resp.Header.Get("Retry-After")} {
							if strings.Contains(text, form) || strings.Contains(text, plain) || strings.Contains(text, credential) {
								t.Errorf("%s: the %s has %s: %s", place, where, form, text)
							}
						}
					}
				})
			}
		}
	}
}
