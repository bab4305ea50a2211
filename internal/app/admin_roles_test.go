package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestPathsOfAdminPort calls the paths outside of the admin API as every role, bound to an organisation
// and not. They show what belongs to all organisations.
func TestPathsOfAdminPort(t *testing.T) {
	cert, key := writeCertificate(t)
	configuration := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: \"0.0.0.0:0\", tls: {cert: %q, key: %q}}\ndata: %s\nstore: sqlite\nproviders: {u: {protocol: openai-chat, base_url: %q, auth: none}}\nmodels: {m: {targets: [u/x]}}\n",
		cert, key, t.TempDir(), upstreamtest.New(t).BaseURL())
	keys := keyringOf(t, configuration)
	g := start(t, configuration, quick())
	_, port, err := net.SplitHostPort(g.adminAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	status := func(method, path, body, key string) int {
		req, err := http.NewRequest(method, "https://127.0.0.1:"+port+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	may := map[access.Role]bool{access.Owner: true, access.Admin: true, access.Auditor: true}
	for _, role := range []access.Role{access.Owner, access.Admin, access.Billing, access.Auditor, access.KeyManager} {
		for _, org := range []string{"", "acme"} {
			if org != "" && (role == access.Owner || role == access.Admin) {
				continue // they are never bound
			}
			made, err := keys.Create(t.Context(), access.Record{Name: "an operator", Role: role, Org: org, Created: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[may[role] && org == ""]
			for path, method := range map[string]string{"/metrics": http.MethodGet, modelsPath: http.MethodGet, explainPath + "?dialect=openai-chat": http.MethodPost} {
				if got := status(method, path, `{"model":"m"}`, made.Text.Reveal()); got != want {
					t.Errorf("%s as %s of %q: %d, want %d", path, role, org, got, want)
				}
				if got := status(method, path, `{"model":"m"}`, ""); got != http.StatusUnauthorized && got != http.StatusTooManyRequests {
					t.Errorf("%s without a key: %d", path, got)
				}
			}
		}
	}
}
