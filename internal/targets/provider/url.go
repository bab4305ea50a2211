package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// URL returns the address of a protocol's path, such as /v1/chat/completions, at this
// provider. The path is escaped and may have a query.
//
// BaseURL has the form that the vendor's SDK takes:
//
//   - for the two protocols of OpenAI the part of the path after /v1 is appended
//     to it, and a bare origin gets /v1 first; a base with another kind of version
//     (Azure's deployments) is not changed;
//   - for other protocols, and for paths outside of /v1, the whole path is appended to
//     the base without its last version segment.
//
// The result has exactly one version, and the base's query is kept.
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
		// url.URL ignores RawPath unless it is an encoding of Path.
		if plain, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = plain, path
		}
	}
	return &u
}

// The place of the model in a base URL, as it is and escaped.
const (
	modelPlace   = "{model}"
	modelEscaped = "%7Bmodel%7D"
)

// ModelURL returns the address of a protocol's path for a model. The path of a base URL may
// contain {model}, as that of Azure's deployments: the model becomes one segment of it.
func (p *Provider) ModelURL(path, model string) *url.URL {
	u := p.URL(path)
	if strings.Contains(p.BaseURL.Path, modelPlace) {
		u.RawPath = strings.Replace(u.EscapedPath(), modelEscaped, url.PathEscape(model), 1)
		u.Path = strings.Replace(u.Path, modelPlace, model, 1)
	}
	return u
}

func openAI(name protocol.Name) bool {
	return name == protocol.OpenAIChat || name == protocol.OpenAIResponses
}

// withoutVersion removes a last segment such as /v1 or /v1beta.
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

// endpoints lists the path suffixes that the gateway appends itself.
func endpoints() []string {
	return []string{
		"/chat/completions", "/completions", "/responses", "/messages", "/messages/count_tokens",
		"/embeddings", "/rerank", "/v1/models",
	}
}

// usualScheme returns the scheme that an address without one has most likely: http on this machine.
func usualScheme(address string) string {
	u, err := url.Parse("http://" + address)
	if err != nil {
		return "https://"
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
		return "http://"
	}
	return "https://"
}

// ParseBaseURL parses and checks a base URL for a protocol. Its errors continue the
// quoted value in a message and never contain a part that may be a credential.
func ParseBaseURL(name protocol.Name, raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		return nil, fmt.Errorf("has no scheme; write %q", usualScheme(raw)+raw)
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
		return nil, errors.New("has a fragment; remove \"#\" and the text after it")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, errors.New("has a query that cannot be read; write it as \"?name=value\"")
	}
	path := strings.TrimRight(u.Path, "/")
	for _, end := range endpoints() {
		if strings.HasSuffix(path, end) {
			return nil, fmt.Errorf("is a complete endpoint; remove %q from its end", end)
		}
	}
	if name == protocol.Gemini && slices.ContainsFunc(strings.Split(path, "/"), isVersion) {
		return nil, errors.New("has a version; write the part before it, and the version as api_version")
	}
	return u, nil
}
