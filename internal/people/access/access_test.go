package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestKeys(t *testing.T) {
	keys := NewKeys([]Key{{Secret: "sk-one"}, {Secret: "sk-two"}})
	for _, c := range []struct {
		name   string
		header http.Header
		says   string // status and error code; empty: admitted
	}{
		{"bearer", http.Header{"Authorization": {"Bearer sk-one"}}, ""},
		{"second key", http.Header{"Authorization": {"Bearer sk-two"}}, ""},
		{"scheme in any case", http.Header{"Authorization": {"bEARER  sk-one "}}, ""},
		{"x-api-key", http.Header{"X-Api-Key": {"sk-one"}}, ""},
		{"x-goog-api-key", http.Header{"X-Goog-Api-Key": {"sk-one"}}, ""},
		{"x-api-key before bearer", http.Header{"X-Api-Key": {"sk-one"}, "Authorization": {"Bearer wrong"}}, ""},
		{"wrong x-api-key before bearer", http.Header{"X-Api-Key": {"wrong"}, "Authorization": {"Bearer sk-one"}}, "not known"},
		{"bearer before x-goog-api-key", http.Header{"Authorization": {"Bearer sk-one"}, "X-Goog-Api-Key": {"wrong"}}, ""},
		{"wrong bearer before x-goog-api-key", http.Header{"Authorization": {"Bearer wrong"}, "X-Goog-Api-Key": {"sk-one"}}, "not known"},
		{"other scheme", http.Header{"Authorization": {"Basic sk-one"}}, "no API key"},
		{"other scheme beside a key", http.Header{"Authorization": {"Basic x"}, "X-Goog-Api-Key": {"sk-one"}}, ""},
		{"bare key", http.Header{"Authorization": {"sk-one"}}, "no API key"},
		{"azure's header", http.Header{"Api-Key": {"sk-one"}}, ""},
		{"cookie", http.Header{"Cookie": {"key=sk-one"}}, "no API key"},
		{"nothing", http.Header{}, "no API key"},
		{"empty", http.Header{"Authorization": {"Bearer "}, "X-Api-Key": {""}}, "no API key"},
		{"prefix", http.Header{"X-Api-Key": {"sk-on"}}, "not known"},
		{"longer", http.Header{"X-Api-Key": {"sk-one1"}}, "not known"},
		{"other case", http.Header{"X-Api-Key": {"SK-ONE"}}, "not known"},
		{"two at once", http.Header{"X-Api-Key": {"sk-onesk-two"}}, "not known"},
		{"as printed", http.Header{"X-Api-Key": {"***"}}, "not known"},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://gateway.example/v1/models?key=sk-one", nil)
		r.Header = c.header
		_, err := keys.Check(r)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.says != "" && (err == nil || err.Kind != llm.Authentication || !strings.Contains(err.Message, c.says)):
			t.Errorf("%s: %v, want %s", c.name, err, c.says)
		case err != nil && strings.Contains(err.Error(), "sk-on"):
			t.Errorf("%s: the message quotes a key: %v", c.name, err)
		}
	}
}

// TestKeysLiftTheHostRule checks that host and origin are not restricted when keys are configured.
func TestKeysLiftTheHostRule(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://gateway.example/", nil)
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("X-Api-Key", "k")
	if _, err := NewKeys([]Key{{Secret: "k"}}).Check(r); err != nil {
		t.Error(err)
	}
}

func TestWithoutKeys(t *testing.T) {
	for _, c := range []struct{ host, origin, code string }{
		{"localhost", "", ""},
		{"localhost:8080", "", ""},
		{"LocalHost:8080", "", ""},
		{"app.localhost:8080", "", ""},
		{"127.0.0.1:8080", "", ""},
		{"[::1]:8080", "", ""},
		{"[::1]", "", ""},
		{"10.0.0.7", "", ""},
		{"", "", ""},
		{"evil.example", "", "host_not_allowed"},
		{"evil.example:8080", "", "host_not_allowed"},
		{"localhost.evil.example", "", "host_not_allowed"},
		{"evillocalhost", "", "host_not_allowed"},
		{"127.0.0.1.evil.example:8080", "", "host_not_allowed"},
		{"2130706433", "", "host_not_allowed"},
		{"localhost", "http://localhost:3000", ""},
		{"localhost", "https://LOCALHOST", ""},
		{"localhost", "http://127.0.0.1", ""},
		{"127.0.0.1:8080", "http://[::1]:3000", ""},
		{"localhost", "https://evil.example", "origin_not_allowed"},
		{"localhost", "http://localhost.evil.example", "origin_not_allowed"},
		{"localhost", "http://203.0.113.5", "origin_not_allowed"},
		{"localhost", "null", "origin_not_allowed"},
		{"localhost", "http://", "origin_not_allowed"},
		{"localhost", "chrome-extension://abcdef", "origin_not_allowed"},
		{"localhost", "https://localhost@evil.example", "origin_not_allowed"},
		{"evil.example", "http://localhost", "host_not_allowed"},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://x/", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if want := c.code != "host_not_allowed"; LocalHost(c.host) != want {
			t.Errorf("%q is local: %v, want %v", c.host, !want, want)
		}
		w := httptest.NewRecorder()
		WithoutPages(http.NotFoundHandler()).ServeHTTP(w, r)
		if (w.Code == http.StatusNotFound) != (c.code == "") || (w.Code == http.StatusForbidden) != (c.code != "") {
			t.Errorf("%q from %q: WithoutPages returns %d", c.host, c.origin, w.Code)
		}
		_, err := NewKeys(nil).Check(r)
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%q from %q: %v", c.host, c.origin, err)
		case c.code != "" && (err == nil || err.Code != c.code || err.Kind != llm.Permission || !strings.Contains(err.Message, "configure keys")):
			t.Errorf("%q from %q: %v, want %s", c.host, c.origin, err, c.code)
		}
	}
}

// TestCrossSiteWithoutKeys checks that a page of another site cannot make a browser send
// requests, such as for an image, which carry no origin.
func TestCrossSiteWithoutKeys(t *testing.T) {
	for _, c := range []struct{ path, site, origin, code string }{
		{"/v1/files", "", "", ""},
		{"/v1/files", "none", "", ""}, // typed by the user
		{"/v1/files", "same-origin", "", ""},
		{"/v1/files", "same-site", "", ""}, // another port of this machine
		{"/v1/files", "cross-site", "", "origin_not_allowed"},
		{"/v1/files", "cross-site", "https://evil.example", "origin_not_allowed"},
		{"/v1/files", "cross-site", "http://127.0.0.1:3000", ""},
		{"/", "cross-site", "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+c.path, nil)
		r.Header.Set("Sec-Fetch-Site", c.site)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if _, err := NewKeys(nil).Check(r); (err == nil) != (c.code == "") || err != nil && err.Code != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	keys := NewKeys([]Key{{Secret: "sk-one"}, {Secret: "sk-two"}, {Secret: "sk-three"}})
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", nil)
	r.Header.Set("Authorization", "Bearer sk-three")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Check(r); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCaller checks that a caller is identified by its key, with the key's settings.
func TestCaller(t *testing.T) {
	keys := NewKeys([]Key{{Secret: "sk-one", Criticality: "critical", Concurrency: 3}, {Secret: "sk-two", Criticality: "normal"}})
	callers := map[string]Caller{}
	for _, key := range []string{"sk-one", "sk-two"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("X-Api-Key", key)
		c, err := keys.Check(r)
		if err != nil || strings.Contains(c.ID, key) {
			t.Fatalf("%s: %q, %v", key, c.ID, err)
		}
		callers[key] = c
	}
	one, two := callers["sk-one"], callers["sk-two"]
	if one.ID == two.ID || one.Criticality != "critical" || one.Concurrency != 3 || two.Criticality != "normal" || two.Concurrency != 0 {
		t.Errorf("%+v %+v", one, two)
	}
}

// TestWithoutForeignHosts checks that a page whose name leads to this machine gets nothing, and that
// links from other sites work.
func TestWithoutForeignHosts(t *testing.T) {
	h := WithoutForeignHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for host, want := range map[string]int{"127.0.0.1:8081": 200, "localhost": 200, "[::1]:8081": 200, "evil.example": 403, "evil.example:8081": 403} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/keys", nil)
		r.Host = host
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}
