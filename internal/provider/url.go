package provider

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// URL is the address of a protocol's path, such as /v1/chat/completions, at
// this provider. The path is escaped as it is on the wire and may carry a query.
//
// BaseURL is what the vendor's own SDK takes, so:
//
//   - for the two protocols of OpenAI the part of the path after /v1 is appended
//     to it, and a bare origin gets /v1 first; a base that is versioned in
//     another way (Azure's deployments) is left as it is;
//   - for all else, and for paths outside /v1, the whole path is appended to the
//     base without its final version segment.
//
// Either way exactly one version results, and the base's query is kept.
func (p *Provider) URL(path string) *url.URL {
	u := *p.BaseURL
	path, query, _ := strings.Cut(path, "?")
	switch {
	case query == "":
	case u.RawQuery == "":
		u.RawQuery = query
	default:
		u.RawQuery += "&" + query
	}
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	rest, versioned := strings.CutPrefix(path, "/v1/")
	switch {
	case !versioned || !openAI(p.Protocol):
		path = withoutVersion(prefix) + path
	case prefix == "":
		// a bare origin: the path already begins with /v1
	default:
		path = prefix + "/" + rest
	}
	u.Path, u.RawPath = path, ""
	if strings.IndexByte(path, '%') >= 0 {
		// RawPath only counts while it is an escape of Path.
		if plain, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = plain, path
		}
	}
	return &u
}

func openAI(name protocol.Name) bool {
	return name == protocol.OpenAIChat || name == protocol.OpenAIResponses
}

// withoutVersion takes a last segment such as /v1 or /v1beta off a path.
func withoutVersion(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i >= 0 && isVersion(path[i+1:]) {
		return path[:i]
	}
	return path
}

func isVersion(segment string) bool {
	switch segment {
	case "v1", "v1beta", "v1alpha", "v1beta1":
		return true
	}
	return false
}

// endpoints are the ends of paths that the gateway appends itself.
func endpoints() []string {
	return []string{
		"/chat/completions", "/completions", "/responses", "/messages", "/messages/count_tokens",
		"/embeddings", "/rerank", "/v1/models",
	}
}

// ParseBaseURL reads a base URL for a protocol and refuses what cannot be one.
// Its errors read on from the quoted value, and never quote what may hold a
// credential.
func ParseBaseURL(name protocol.Name, raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		return nil, fmt.Errorf("has no scheme; write %q", "https://"+raw)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return nil, errors.New("is not a URL; write one such as \"https://host/v1\"")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("has the scheme %q; write \"https://\" or \"http://\"", u.Scheme)
	}
	if u.User != nil {
		return nil, errors.New("holds a user name or password; take it out and write the key as api_key")
	}
	if u.Fragment != "" || strings.HasSuffix(raw, "#") {
		return nil, errors.New("holds a fragment; take \"#\" and what follows it out")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, errors.New("has a query that cannot be read; write it as \"?name=value\"")
	}
	path := strings.TrimRight(u.Path, "/")
	for _, end := range endpoints() {
		if strings.HasSuffix(path, end) {
			return nil, fmt.Errorf("is a whole endpoint; take %q off its end", end)
		}
	}
	if name == protocol.Gemini && slices.ContainsFunc(strings.Split(path, "/"), isVersion) {
		return nil, errors.New("holds a version; write what stands before it, and the version as api_version")
	}
	return u, nil
}
