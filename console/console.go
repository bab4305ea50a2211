// Package console serves the web console: the built files of this folder, which `make console`
// writes to dist. Without them, a page says how to build them.
package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// built holds the files that vite has written, each compressed with gzip.
//
//go:embed all:dist
var built embed.FS

//go:embed placeholder.html
var placeholder []byte

// policy allows scripts, styles, pictures and requests of the console's own address, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Paths of the console. Its pages are below Path, the first is at "/".
const (
	Path       = "/console/"
	assetsPath = Path + "assets/"
	statePath  = Path + "state.json"
)

// State is what the console needs to know before somebody has signed in.
type State struct {
	Version string `json:"version"`
	Store   bool   `json:"store"`   // the admin API is served
	SignIn  bool   `json:"sign_in"` // people sign in at /login
	Session bool   `json:"session"` // the browser has the cookie of a session, which may have ended
}

// Handler serves the console. state is called for every request of the state.
func Handler(state func(*http.Request) State) http.Handler { return newHandler(built, state) }

func newHandler(files fs.FS, state func(*http.Request) State) http.Handler {
	page, err := fs.ReadFile(files, "dist/index.html.gz")
	if err != nil {
		page = nil // not built
	}
	mux := http.NewServeMux()
	index := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		if page == nil {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(placeholder) // the browser may have disconnected
			return
		}
		serveFile(w, r, "index.html", page)
	}
	mux.HandleFunc("GET /{$}", index)
	mux.HandleFunc("GET "+Path, index)
	mux.HandleFunc("GET "+statePath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(state(r)) // the browser may have disconnected
	})
	mux.HandleFunc("GET "+assetsPath, func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		text, err := fs.ReadFile(files, "dist/assets/"+name+".gz")
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // the name has a hash of the content
		serveFile(w, r, name, text)
	})
	return secure(mux)
}

// mediaTypes has the types of the console's files. Those of package mime depend on the system.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// serveFile sends a compressed file, decompressed for clients that cannot do that.
func serveFile(w http.ResponseWriter, r *http.Request, name string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", mediaTypes[path.Ext(name)])
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(text) //nolint:gosec // a file of the binary; the browser may have disconnected
		return
	}
	plain, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		http.Error(w, "the file is not compressed; build the console again", http.StatusInternalServerError)
		return
	}
	_, _ = io.Copy(w, plain) //nolint:gosec // a file of the binary
}

// secure adds the headers of every response.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
