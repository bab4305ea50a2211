package provider

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Build returns the providers of a table. timeouts are those of the file, and listen is the gateway's own address.
func Build(table settings.Table[Settings], timeouts Timeouts, listen string) (list []*Provider) {
	claimed := map[Path]string{}
	for _, entry := range table {
		raw := &entry.Value
		p := raw.resolve(timeouts)
		raw.checkPaths(p.Paths, claimed)
		raw.checkLoop(p, listen)
		list = append(list, p)
	}
	return list
}

// version returns the HTTP version. HTTP/2 without TLS needs an address without TLS.
func (f *Settings) version() HTTPVersion {
	v := cmp.Or(f.HTTP, AutoHTTP)
	if v == H2C && strings.HasPrefix(f.BaseURL, "https:") {
		f.Wrong("http", "is HTTP/2 without TLS, and base_url is https; remove http, which chooses HTTP/2 where the upstream has it")
	}
	return v
}

func (f *Settings) resolve(timeouts Timeouts) *Provider {
	f.checkName()
	preset := f.preset()
	f.Protocol, f.Auth = cmp.Or(f.Protocol, preset.Protocol), cmp.Or(f.Auth, preset.Auth)
	f.UpstreamStream, f.NvExt = cmp.Or(f.UpstreamStream, preset.UpstreamStream), cmp.Or(f.NvExt, preset.Extensions)
	f.CacheSalt, f.Continuation = cmp.Or(f.CacheSalt, preset.CacheSalt), cmp.Or(f.Continuation, preset.Continuation)
	f.Quota, f.Rerank = cmp.Or(f.Quota, QuotaModel), cmp.Or(f.Rerank, RerankSame)
	p := &Provider{
		Name:           f.Name(),
		Preset:         preset.Name,
		Protocol:       f.Protocol,
		Auth:           f.Auth,
		Key:            f.APIKey,
		UpstreamStream: f.UpstreamStream,
		HTTP:           f.version(),
		IncludeUsage:   f.IncludeUsage,
		Extensions:     f.NvExt,
		UnknownIDs:     f.UnknownIDs,
		CacheSalt:      f.CacheSalt,
		ThinkTags:      f.ThinkTags,
		Quirks:         preset.Quirks,
		Timeouts:       f.Timeouts.Over(timeouts),
	}
	f.checkPlace(p.Auth, preset)
	p.Envelope, p.Project, p.Location = preset.Envelope, f.Project, f.Region
	p.BaseURL = f.baseURL(p.Protocol, preset)
	p.APIVersion = f.apiVersion(p.Protocol)
	if p.APIVersion == "" && len(f.AcceptedVersions) == 0 {
		p.APIVersion, f.APIVersion = preset.APIVersion, preset.APIVersion
	}
	p.AcceptedVersions = f.acceptedVersions(p.Protocol)
	p.ForwardUnknownVersion = f.ForwardUnknownVersion
	p.Rerank = f.rerank(p.Protocol)
	p.Headers = f.headers(p.Auth)
	p.Paths = f.paths()
	p.Concurrency = f.Concurrency
	p.Quota = f.Quota
	p.Continuation = f.Continuation
	p.Health = f.Health.resolve(preset)
	f.resolveCloud(p)
	f.checkKey(p, preset)
	f.fileKey(p)
	return p
}

// healthEvery is the default interval of health checks.
const healthEvery = 5 * time.Second

func (h *healthSettings) resolve(preset Preset) Check {
	h.Path = cmp.Or(h.Path, preset.HealthPath)
	if h.Path != "" && !strings.HasPrefix(h.Path, "/") {
		h.Wrong("path", "%q does not begin with \"/\"; write a path such as /health", h.Written("path", ""))
	}
	if h.Every == 0 && h.Path != "" {
		h.Every = healthEvery
	}
	return Check{Path: h.Path, Every: h.Every}
}

// checkName rejects "/" and "*": a target is split at its first "/".
func (f *Settings) checkName() {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(f.Name()) {
		f.Wrong("", "is not a name for a provider; write letters, digits, \"-\", \"_\" and \".\"")
	}
}

func (f *Settings) preset() Preset {
	if preset, ok := Lookup(f.Preset); ok {
		return preset
	}
	if f.Preset == "" && f.Protocol == "" {
		hint := ""
		if _, ok := Lookup(f.Name()); ok {
			hint = ", such as \"preset: " + f.Name() + "\""
		}
		f.Wrong("", "has neither preset nor protocol; write one of them%s", hint)
	}
	return Custom(f.Protocol)
}

// validPlace reports whether a text is the name of a region or of a project. Neither may
// lead to another host or path.
func validPlace(name string) bool {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9.:-]*[a-z0-9])?$`).MatchString(name)
}

// checkPlace checks region and project: whether the preset's address, its paths or the
// signature have them, and whether they are names.
func (f *Settings) checkPlace(auth Auth, preset Preset) {
	inURL := func(name string) bool {
		return f.BaseURL == "" && strings.Contains(preset.Template+preset.Host, name)
	}
	for _, k := range []struct {
		key, value, example string
		needed, signed      bool
	}{
		{"region", f.Region, "us-east5", preset.InProject || inURL("{region}"), auth == AWSAuth},
		{"project", f.Project, "my-project", preset.InProject || inURL("{project}"), false},
	} {
		switch {
		case k.needed && k.value == "":
			f.Wrong(k.key, "is required for %s; write one such as %q", preset.Name, k.example)
		case !k.needed && !k.signed && k.value != "" && preset.Template == "":
			f.Wrong(k.key, "is not a part of this provider's address; remove it")
		case k.value != "" && (!validPlace(k.value) || k.key == "region" && strings.ContainsAny(k.value, ".:")):
			f.Wrong(k.key, "%q is not a name; write one such as %q", f.Written(k.key, ""), k.example)
		}
	}
}

func (f *Settings) baseURL(name protocol.Name, preset Preset) *url.URL {
	own := f.BaseURL != ""
	f.BaseURL = cmp.Or(f.BaseURL, preset.URL(f.Project, f.Region))
	n := f.Node("base_url")
	if !own && preset.Template != "" && (!validPlace(f.Region) || strings.Contains(f.Region, ".")) {
		return &url.URL{} // reported there
	}
	if f.BaseURL == "" {
		switch {
		case preset.Protocol == "" || f.Preset != "" && preset.Name == "":
			// no preset, or an unknown one: reported there
		case f.Preset == "azure":
			f.Wrong("base_url", "is required for azure; write \"https://RESOURCE.openai.azure.com/openai/v1\"")
		case f.Preset == "azure-anthropic":
			f.Wrong("base_url", "is required for azure-anthropic; write \"https://RESOURCE.services.ai.azure.com/anthropic\"")
		default:
			f.Wrong("base_url", "is required; write what the vendor's SDK takes, such as \"http://127.0.0.1:8000/v1\", or a preset")
		}
		return &url.URL{}
	}
	u, err := ParseBaseURL(name, f.BaseURL)
	if err == nil {
		return u
	}
	if n == nil { // the preset's own address under another protocol
		f.Wrong("base_url", "of the preset does not fit the protocol: it %s", err)
	} else {
		f.badBaseURL(n, err)
	}
	return &url.URL{}
}

// badBaseURL reports an invalid base_url. It quotes the value unless it may contain a
// password.
func (f *Settings) badBaseURL(n *settings.Node, err error) {
	text := strings.ReplaceAll(err.Error(), n.Text, n.Written)
	if strings.Contains(n.Written, "@") {
		f.WrongNode(n, "%s", text)
		return
	}
	f.WrongNode(n, "%q %s", n.Written, text)
}

func (f *Settings) apiVersion(name protocol.Name) string {
	if f.APIVersion == "" {
		return ""
	}
	if !versioned(name) {
		f.Wrong("api_version", "is not a part of the protocol %s; remove it, or write it into base_url as \"?api-version=...\"", name)
		return ""
	}
	if !isAPIVersion(name, f.APIVersion) {
		f.Wrong("api_version", "%q is not a version of the protocol %s; write %s", f.Written("api_version", ""), name, versionText(name))
	}
	return f.APIVersion
}

func (f *Settings) acceptedVersions(name protocol.Name) []string {
	if f.Has("forward_unknown_version") && name != protocol.Anthropic {
		f.Wrong("forward_unknown_version", "is not a part of the protocol %s, which has no version in its headers; remove it", name)
	}
	if f.Has("accepted_versions") && !versioned(name) {
		f.Wrong("accepted_versions", "is not a part of the protocol %s, which has no versions; remove it", name)
		return nil
	}
	for i, v := range f.AcceptedVersions {
		if !isAPIVersion(name, v) {
			n := f.Node("accepted_versions").Children[i]
			f.WrongNode(n, "%q is not a version of the protocol %s; write %s", n.Written, name, versionText(name))
		}
	}
	return f.AcceptedVersions
}

func (f *Settings) rerank(name protocol.Name) Rerank {
	if f.Has("rerank") && name != protocol.OpenAIChat {
		f.Wrong("rerank", "is not a part of the protocol %s; remove it, or write a provider of its own with \"protocol: openai-chat\"", name)
	}
	return f.Rerank
}

func versioned(name protocol.Name) bool { return name == protocol.Anthropic || name == protocol.Gemini }

func isAPIVersion(name protocol.Name, version string) bool {
	pattern := `^\d{4}-\d{2}-\d{2}$`
	if name == protocol.Gemini {
		pattern = `^v\d+((alpha|beta)\d*)?$`
	}
	return regexp.MustCompile(pattern).MatchString(version)
}

func versionText(name protocol.Name) string {
	if name == protocol.Gemini {
		return "v1 or v1beta"
	}
	return "a date such as 2023-06-01"
}

// ownHeaders lists the headers that only the gateway or the connection may set.
func ownHeaders() []string {
	return []string{
		"Host", "Content-Length", "Content-Encoding", "Content-Type", "Accept-Encoding", "Connection", "Keep-Alive",
		"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Cookie",
	}
}

func (f *Settings) headers(auth Auth) http.Header {
	if len(f.Headers) == 0 {
		return nil
	}
	out := http.Header{}
	for _, n := range f.Node("headers").Children {
		name := http.CanonicalHeaderKey(n.Key)
		switch {
		case !isToken(n.Key):
			f.WrongNode(n, "is not the name of a header; write letters, digits and \"-\"")
		case name == auth.Header():
			f.WrongNode(n, "carries the credential of auth %s; write it as api_key", auth)
		case slices.Contains(ownHeaders(), name):
			f.WrongNode(n, "is written by the gateway itself; remove it")
		case strings.ContainsFunc(n.Text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			f.WrongNode(n, "holds a line break or another character that a header cannot carry; remove it")
		case out[name] != nil:
			f.WrongNode(n, "is set twice in different spellings; keep one")
		}
		out[name] = []string{n.Text}
	}
	return out
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

func (f *Settings) checkKey(p *Provider, preset Preset) {
	private := preset.Local || isPrivate(p.BaseURL.Hostname())
	switch {
	case p.Auth == NoneAuth && p.Key != "":
		f.Wrong("api_key", "is never sent, because auth is none; remove one of them")
	case p.Auth != NoneAuth && !p.Auth.Cloud() && p.Key == "" && !private && p.BaseURL.Host != "":
		env := cmp.Or(preset.EnvKey, "API_KEY")
		f.Wrong("api_key", "is empty; write \"${%s}\", or \"auth: none\" if the provider asks for no key", env)
	case strings.ContainsFunc(p.Key.Reveal(), notInHeader):
		f.Wrong("api_key", "holds a space, a line break or another character that a header cannot carry; remove it")
	case p.Key != "" && p.BaseURL.Scheme == "http" && !isPrivate(p.BaseURL.Hostname()):
		f.Wrong("base_url", "would send api_key unencrypted over a public network; write https://")
	}
}

// isPrivate reports whether a host is on this machine or in a private network:
// loopback, private and link-local addresses, and names outside of the public DNS.
func isPrivate(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		shared := netip.MustParsePrefix("100.64.0.0/10") // carriers' and overlay networks
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || shared.Contains(ip)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" {
		return false
	}
	if !strings.Contains(host, ".") { // localhost, and a container's or a service's name
		return true
	}
	for _, suffix := range []string{".localhost", ".local", ".internal", ".svc", ".lan", ".home.arpa"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

// checkLoop reports a provider whose address is the gateway's own.
func (f *Settings) checkLoop(p *Provider, listen string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || p.BaseURL.Port() != port || !safeurl.IsLoopback(p.BaseURL.Hostname()) {
		return
	}
	if ip, err := netip.ParseAddr(host); host == "" || safeurl.IsLoopback(host) || err == nil && ip.IsUnspecified() {
		f.Wrong("base_url", "is the address that the gateway itself listens on; write the engine's own, or another port in listen")
	}
}

func notInHeader(r rune) bool { return r <= ' ' || r > '~' }
