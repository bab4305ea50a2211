package provider

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// methods lists the methods that a forwarded path may have.
func methods() []string { return []string{"GET", "POST", "PUT", "PATCH", "DELETE"} }

// ownPaths lists the paths of the gateway itself. A trailing "/" includes all paths
// below it.
func ownPaths() []string {
	return []string{
		"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens", "/v1/messages", "/v1/messages/count_tokens",
		"/v1/embeddings", "/v1/rerank", "/v1/models", "/v1/models/", "/v1beta/models", "/v1beta/models/",
		"/dynamo/alpha/list-models", "/health", "/live",
	}
}

// paths parses the list of "METHOD /path".
func (f *Settings) paths() []Path {
	out := make([]Path, 0, len(f.Paths))
	for i, text := range f.Paths {
		p, err := parsePath(text)
		if err != nil {
			f.WrongItem("paths", i, "%q %s", text, err)
		}
		out = append(out, p) // also a bad one: checkPaths counts along with the file
	}
	return out
}

func parsePath(text string) (Path, error) {
	method, p, ok := strings.Cut(text, " ")
	if !ok || !strings.HasPrefix(p, "/") {
		return Path{}, fmt.Errorf("is not a method and a path; write \"POST /v1/audio/speech\"")
	}
	if !slices.Contains(methods(), method) {
		return Path{}, fmt.Errorf("has a method that is not forwarded; write one of %s", strings.Join(methods(), ", "))
	}
	if strings.ContainsAny(p, "*{}") {
		return Path{}, fmt.Errorf("holds a wildcard; write each path out")
	}
	if strings.ContainsFunc(p, notInHeader) || strings.ContainsAny(p, "?#%\\") || p == "/" || path.Clean(p) != p {
		return Path{}, fmt.Errorf("is not a plain path; write it without query, escapes, \"..\" and double or final slashes")
	}
	for _, own := range ownPaths() {
		if p == own || strings.HasSuffix(own, "/") && strings.HasPrefix(p, own) {
			return Path{}, fmt.Errorf("is served by the gateway itself; remove it")
		}
	}
	return Path{Method: method, Path: p}, nil
}

// checkPaths reports a path that is listed twice, for one provider or for two.
func (f *Settings) checkPaths(paths []Path, claimed map[Path]string) {
	for i, p := range paths {
		if p.Path == "" {
			continue
		}
		if by, ok := claimed[p]; ok {
			f.WrongItem("paths", i, "is listed by providers.%s too; keep one", by)
			continue
		}
		claimed[p] = f.Name()
	}
}
