package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// maxBuilt is what the compressed files of the console may have together, in bytes.
const maxBuilt = 400 << 10

// TestSize checks the size of the built console. Without a build there is nothing to measure.
func TestSize(t *testing.T) {
	sum := 0
	err := fs.WalkDir(built, "dist", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(built, path)
		sum += len(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the console has %d bytes", sum)
	if sum > maxBuilt {
		t.Errorf("the console has %d bytes, more than %d", sum, maxBuilt)
	}
}

// files is a built console.
func files(t *testing.T) fs.FS {
	t.Helper()
	compressed := func(text string) *fstest.MapFile {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &fstest.MapFile{Data: b.Bytes()}
	}
	return fstest.MapFS{"dist/index.html.gz": compressed("<p>console</p>"), "dist/assets/index-1234.js.gz": compressed("start()"), "dist/.stamp": &fstest.MapFile{}}
}

func get(t *testing.T, h http.Handler, path, encoding string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	defer func() { _ = resp.Body.Close() }()
	var body io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestHandler(t *testing.T) {
	h := newHandler(files(t), func(*http.Request) State { return State{Version: "v1", Store: true} })
	const page, immutable = "<p>console</p>", "public, max-age=31536000, immutable"
	for _, tt := range []struct {
		path, encoding string
		status         int
		body           string
		kind, caching  string
	}{
		{"/", "gzip", 200, page, "text/html; charset=utf-8", "no-cache"},
		{"/", "", 200, page, "text/html; charset=utf-8", "no-cache"},
		{"/console/exchanges/1", "br, gzip", 200, page, "text/html; charset=utf-8", "no-cache"},
		{"/console/assets/index-1234.js", "gzip", 200, "start()", "text/javascript; charset=utf-8", immutable},
		{"/console/assets/index-1234.js", "", 200, "start()", "text/javascript; charset=utf-8", immutable},
		{"/console/assets/other.js", "gzip", 404, "404 page not found\n", "text/plain; charset=utf-8", ""},
		{"/console/assets/.stamp", "gzip", 404, "404 page not found\n", "text/plain; charset=utf-8", ""},
		{"/console/state.json", "gzip", 200, `{"version":"v1","store":true,"sign_in":false,"session":false}` + "\n", "application/json", "no-store"},
		{"/elsewhere", "gzip", 404, "404 page not found\n", "text/plain; charset=utf-8", ""},
	} {
		resp, body := get(t, h, tt.path, tt.encoding)
		if resp.StatusCode != tt.status || body != tt.body || resp.Header.Get("Content-Type") != tt.kind || resp.Header.Get("Cache-Control") != tt.caching {
			t.Errorf("%s: %d %q %v", tt.path, resp.StatusCode, body, resp.Header)
		}
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != (tt.encoding != "" && tt.status == 200 && tt.kind != "application/json") {
			t.Errorf("%s for %q: compressed: %t", tt.path, tt.encoding, got)
		}
		policy := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", tt.path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || resp.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", tt.path, resp.Header)
		}
	}
}

// TestNotBuilt checks that a binary without the console says so.
func TestNotBuilt(t *testing.T) {
	h := newHandler(fstest.MapFS{}, func(*http.Request) State { return State{} })
	resp, body := get(t, h, "/", "gzip")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "make console build") || resp.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
