package admin

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestBodies checks that invalid bodies are rejected and change nothing.
func TestBodies(t *testing.T) {
	w := newWorld(t).serve()
	owner, key := w.operator(access.Owner, ""), w.client("a")
	long := strings.Repeat("x", 101)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"unknown member":        {`{"name":"x","surprise":1}`, 422},
		"stored, not offered":   {`{"revoked":"2030-01-01T00:00:00Z"}`, 422},
		"role":                  {`{"role":"owner"}`, 422},
		"org":                   {`{"org":"b"}`, 422},
		"digests":               {`{"digests":[]}`, 422},
		"another case":          {`{"NAME":"x"}`, 422},
		"twice":                 {`{"name":"x","name":"y"}`, 400},
		"twice in cases":        {`{"name":"x","Name":"y"}`, 422},
		"long s":                {`{"modelſ":["x"]}`, 422},
		"twice below":           {`{"limits":{"budget":"1","budget":"2"}}`, 400},
		"case below":            {`{"limits":{"Budget":"1"}}`, 422},
		"null":                  {`{"name":null}`, 400},
		"null list":             {`{"models":null}`, 400},
		"null limits":           {`{"limits":null}`, 400},
		"number for text":       {`{"name":1}`, 422},
		"text for number":       {`{"limits":{"concurrency":"1"}}`, 422},
		"fraction":              {`{"limits":{"concurrency":1.5}}`, 422},
		"negative":              {`{"limits":{"concurrency":-1}}`, 422},
		"too large":             {`{"limits":{"concurrency":9223372036854775807}}`, 422},
		"beyond 64 bits":        {`{"limits":{"concurrency":99999999999999999999}}`, 422},
		"money as a number":     {`{"limits":{"budget":12.5}}`, 422},
		"money in exponents":    {`{"limits":{"budget":"1e9"}}`, 422},
		"money below zero":      {`{"limits":{"budget":"-1"}}`, 422},
		"money beyond 64 bits":  {`{"limits":{"budget":"99999999999999999999"}}`, 422},
		"money with ten places": {`{"limits":{"budget":"0.0000000001"}}`, 422},
		"long name":             {`{"name":"` + long + `"}`, 422},
		"empty name":            {`{"name":""}`, 422},
		"line in a name":        {`{"name":"a\nb"}`, 422},
		"empty model":           {`{"models":[""]}`, 422},
		"long model":            {`{"models":["` + strings.Repeat("m", 201) + `"]}`, 422},
		"no network":            {`{"networks":["10.0.0.1"]}`, 422},
		"bits in a network":     {`{"networks":["10.0.0.1/8"]}`, 422},
		"no time":               {`{"expires":"tomorrow"}`, 422},
		"past":                  {`{"expires":"2001-01-01T00:00:00Z"}`, 422},
		"criticality":           {`{"criticality":"urgent"}`, 422},
		"not an object":         {`[]`, 422},
		"null body":             {`null`, 400},
		"no JSON":               {`{`, 400},
		"more behind":           {`{"name":"x"} {}`, 400},
		"NUL":                   {"{\"name\":\"a\x00b\"}", 400},
		"lone surrogate":        {`{"name":"\ud800"}`, 400},
		"too much":              {`{"name":"` + strings.Repeat("x", 64<<10) + `"}`, 413},
	} {
		g := w.send(owner, "PATCH", "/api/v1/keys/"+key, c.body)
		p := read[openapi.Problem](t, got{c.status, g.header, g.body}, c.status)
		if g.status != c.status || p.Detail == "" || c.status == 422 && len(p.Errors) == 0 {
			t.Errorf("%s: %d %s, want %d", name, g.status, g.body, c.status)
		}
	}
	r, err := w.store.Key(t.Context(), key)
	if err != nil || r.Name != "test" || r.Limit.Concurrency != 0 || r.Role != "" || r.Org != "a" {
		t.Errorf("%+v, %v", r, err)
	}
	if n := len(w.entries("update-key")); n != 0 {
		t.Errorf("%d entries for changes that were refused", n)
	}
}

func TestContentType(t *testing.T) {
	w := newWorld(t).serve()
	owner, key := w.operator(access.Owner, ""), w.client("a")
	for value, status := range map[string]int{
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415, "application/json; charset=utf-8": 200,
		"application/cbor": 415, "application/problem+json": 415, "application/json": 200,
	} {
		g := w.send(owner, "PATCH", "/api/v1/keys/"+key, `{"name":"n"}`, func(r *http.Request) {
			r.Header.Del("Content-Type")
			if value != "" {
				r.Header.Set("Content-Type", value)
			}
		})
		if g.status != status {
			t.Errorf("%q: %d, want %d", value, g.status, status)
		}
	}
	g := w.send(owner, "PATCH", "/api/v1/keys/"+key, `{"name":"n"}`, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") })
	w.refusal(g, http.StatusUnsupportedMediaType, "content_type")
}

// unread fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func (unread) Close() error { return nil }

// bare is a minimal ResponseWriter.
type bare struct {
	header http.Header
	status int
}

func (b *bare) Header() http.Header         { return b.header }
func (b *bare) WriteHeader(status int)      { b.status = status }
func (b *bare) Write(p []byte) (int, error) { return len(p), nil }

// TestRefusedBeforeTheBody checks that unauthorized requests are refused before the body is read.
func TestRefusedBeforeTheBody(t *testing.T) {
	w := newWorld(t)
	api := New(w.options)
	keeper := w.operator(access.KeyManager, "a")
	for _, c := range []struct {
		method, path, key string
		status            int
	}{
		{"POST", "/nowhere", "", 404},
		{"POST", "/api/v1/nothing", keeper, 404},
		{"DELETE", "/api/v1/keys", keeper, 405},
		{"POST", "/api/v1/keys", "", 401},
		{"POST", "/api/v1/orgs", keeper, 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1"+c.path, unread{t})
		w.must(err)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		if c.key != "" {
			r.Header.Set("Authorization", "Bearer "+c.key)
		}
		out := &bare{header: http.Header{}}
		api.ServeHTTP(out, r)
		if out.status != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, out.status, c.status)
		}
	}
}

func TestBrowsers(t *testing.T) {
	w := newWorld(t).serve()
	owner, key := w.operator(access.Owner, ""), w.client("a")
	patch := func(edit func(*http.Request)) got {
		return w.send(owner, "PATCH", "/api/v1/keys/"+key, `{"name":"n"}`, edit)
	}
	w.refusal(patch(func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }), http.StatusForbidden, "origin_not_allowed")
	w.refusal(patch(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }), http.StatusForbidden, "origin_not_allowed")
	w.refusal(patch(func(r *http.Request) { r.Host = "evil.example" }), http.StatusForbidden, "host_not_allowed")
	w.refusal(w.send("", "GET", openapiPath, "", func(r *http.Request) { r.Host = "evil.example:8081" }), http.StatusForbidden, "host_not_allowed")
	g := w.send(owner, "OPTIONS", "/api/v1/keys", "", func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Access-Control-Request-Method", "POST")
	})
	if g.status != http.StatusMethodNotAllowed {
		t.Errorf("a preflight is answered: %d", g.status)
	}
	for _, g := range []got{g, w.send("", "GET", openapiPath, ""), w.send(owner, "GET", "/api/v1/keys", ""), w.send("", "GET", "/x", ""), patch(func(*http.Request) {})} {
		if g.header.Get("Cache-Control") != "no-store" || g.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%v", g.header)
		}
		for name := range g.header {
			if strings.HasPrefix(name, "Access-Control") || name == "Set-Cookie" {
				t.Errorf("%s: %v", name, g.header[name])
			}
		}
	}
	w.options.Loopback = false
	w.serve()
	read[keyView](t, w.send(owner, "GET", "/api/v1/keys/"+key, "", func(r *http.Request) { r.Host = "gateway.example" }), 200)
}

func TestPathParametersAreValidated(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	for _, path := range []string{
		"/keys/short", "/keys/" + strings.Repeat("0", 23), "/keys/%00000000000000000000000", "/keys/..%2f..%2fetc%2fpasswd000",
		"/orgs/A", "/orgs/a%2fb", "/orgs/-", "/orgs/" + strings.Repeat("a", 65), "/orgs/a/teams/T", "/requests/x", "/requests/" + strings.Repeat("g", 36),
	} {
		if g := w.send(owner, "GET", prefix+path, ""); g.status != 422 && g.status != 404 {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
}

// FuzzBody checks that a body is rejected, or survives encoding and decoding.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"name":"x"}`, `{"name":"x","NAME":"y"}`, `{"limits":{"budget":"1"}}`, `{"models":["a","b*"]}`, `{`, `null`} {
		f.Add([]byte(seed))
	}
	op := openapi.For[updateKeyIn, keyView]("update-key", http.MethodPatch, "/keys/{key}", "")
	op.Describe()
	f.Fuzz(func(t *testing.T, data []byte) {
		decode := func(data []byte) (c keyChange, ok bool) {
			r := httptest.NewRequest(http.MethodPatch, "/", bytes.NewReader(data))
			r.SetPathValue("key", strings.Repeat("k", 22))
			var in updateKeyIn
			p := op.Read(httptest.NewRecorder(), r, &in)
			return in.Body, p == nil
		}
		c, ok := decode(data)
		if !ok {
			return
		}
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%q was accepted and cannot be written: %v", data, err)
		}
		if again, ok := decode(out); !ok || !reflect.DeepEqual(c, again) {
			t.Errorf("%q became %q", data, out)
		}
	})
}
