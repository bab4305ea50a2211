package ingress

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/similar"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
)

// maxPath is the number of bytes of an unknown path that an error quotes.
const maxPath = 200

// WrongMethod returns the error of an endpoint that takes another method. A client that tries a
// WebSocket gets status 426: Codex then uses HTTP at once.
func WrongMethod(req *http.Request, want string) *llm.Error {
	path := req.URL.EscapedPath()
	path = path[:min(len(path), maxPath)]
	if strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		return &llm.Error{Kind: llm.MethodNotAllowed, Status: http.StatusUpgradeRequired, Code: "websocket_unsupported", Message: path + " has no WebSocket; send the request by " + want}
	}
	return &llm.Error{Kind: llm.MethodNotAllowed, Message: path + " takes " + want + ", not " + req.Method}
}

// twice matches a path that has its version twice, as it happens if both the base URL and
// the client add it.
var twice = regexp.MustCompile(`^/(v[0-9]+[a-z]*)/v[0-9]+[a-z]*/`)

// Unknown returns the error of a path that has no endpoint, and the dialect to write it
// in: the client's if it is known by a sign, else that of the path which the client
// probably meant.
func (d *Table) Unknown(req *http.Request) (*codec.Dialect, *llm.Error) {
	dialect, path := d.Claimed(req), req.URL.EscapedPath()
	likely, found := d.likely(req.URL.Path)
	if found && dialect == d.list[0] {
		dialect = likely.Dialect
	}
	text := "there is no endpoint " + req.Method + " " + path[:min(len(path), maxPath)] + "; "
	if version := twice.FindStringSubmatch(path); version != nil {
		text += "it has a version twice, because the client adds one to a base URL that ends in /" + version[1] + "; "
	}
	if found {
		text += "did you mean " + likely.Path + "?"
	} else {
		text += "a provider's own path is served only if its configuration lists it under paths"
	}
	return dialect, &llm.Error{Kind: llm.NotFound, Code: "unknown_url", Message: text}
}

// likely returns the endpoint that a client probably meant with an unknown path: one
// whose path lacks the beginning or has too much before it, such as /chat/x or
// /api/v1/chat/x for /v1/chat/x, or else one that is spelled similarly.
func (d *Table) likely(path string) (best Endpoint, found bool) {
	path = strings.ToLower("/" + strings.Join(strings.FieldsFunc(path[:min(len(path), maxPath)], func(r rune) bool { return r == '/' }), "/"))
	if path == "/" {
		return Endpoint{}, false
	}
	endpoints := d.fixed()
	paths := make([]string, len(endpoints))
	for i, e := range endpoints {
		paths[i] = e.Path
		// Of several the path that is nearest in length.
		if (strings.HasSuffix(path, e.Path) || strings.HasSuffix(e.Path, path)) && (!found || distance(e.Path, path) < distance(best.Path, path)) {
			best, found = e, true
		}
	}
	if i := slices.Index(paths, similar.Name(path, paths)); !found && i >= 0 && similarEnd(path, paths[i]) {
		return endpoints[i], true
	}
	return best, found
}

// similarEnd reports whether the last segments of two paths are similar, if the rest is the same. The id of a
// response is not a mistyped compact.
func similarEnd(a, b string) bool {
	i, j := strings.LastIndexByte(a, '/'), strings.LastIndexByte(b, '/')
	return a[:i] != b[:j] || similar.Name(a[i+1:], []string{b[j+1:]}) != ""
}

// distance returns the difference of two lengths.
func distance(a, b string) int { return max(len(a)-len(b), len(b)-len(a)) }

// fixed returns the endpoints with a fixed path, sorted by path.
func (d *Table) fixed() []Endpoint {
	list := slices.DeleteFunc(slices.Clone(d.lists), func(e Endpoint) bool { return e.Own })
	for _, e := range d.byPath {
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b Endpoint) int { return strings.Compare(a.Path, b.Path) })
	return list
}
