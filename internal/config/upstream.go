package config

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// resolveProviders builds every provider and returns them by name.
func (f *file) resolveProviders(c *Config, ps *Problems) map[string]*provider.Provider {
	byName := make(map[string]*provider.Provider, len(f.Providers))
	claimed := map[provider.Path]string{}
	for _, raw := range f.Providers {
		p := raw.resolve(c.Timeouts, outside{f.dir, f.env}, ps)
		raw.checkPaths(p.Paths, claimed, ps)
		raw.checkLoop(p, c.Listen, ps)
		c.Providers = append(c.Providers, p)
		byName[p.Name] = p
	}
	return byName
}

func (f *providerFile) resolve(timeouts provider.Timeouts, outside outside, ps *Problems) *provider.Provider {
	f.checkName(ps)
	preset := f.preset(ps)
	f.Protocol, f.Auth = or(f.Protocol, protocolName(preset.Protocol)), or(f.Auth, authName(preset.Auth))
	f.UpstreamStream, f.NvExt = or(f.UpstreamStream, streamName(preset.UpstreamStream)), or(f.NvExt, nvExtName(preset.Extensions))
	f.CacheSalt, f.Continuation = or(f.CacheSalt, cacheSaltName(preset.CacheSalt)), or(f.Continuation, continuationName(preset.Continuation))
	f.Quota, f.Rerank = or(f.Quota, quotaName(provider.QuotaModel)), or(f.Rerank, rerankName(provider.RerankSame))
	p := &provider.Provider{
		Name:           f.node.key,
		Preset:         preset.Name,
		Protocol:       protocol.Name(f.Protocol),
		Auth:           provider.Auth(f.Auth),
		Key:            f.APIKey,
		UpstreamStream: provider.StreamMode(f.UpstreamStream),
		IncludeUsage:   f.IncludeUsage,
		Extensions:     provider.Extensions(f.NvExt),
		UnknownIDs:     provider.UnknownIDs(f.UnknownIDs),
		CacheSalt:      provider.CacheSalt(f.CacheSalt),
		ThinkTags:      provider.ThinkTags(f.ThinkTags),
		Quirks:         preset.Quirks,
		Timeouts:       f.Timeouts.over(timeouts, ps),
	}
	f.checkPlace(p.Auth, preset, ps)
	p.Envelope, p.Project, p.Location = preset.Envelope, f.Project, f.Region
	p.BaseURL = f.baseURL(p.Protocol, preset, ps)
	p.APIVersion = f.apiVersion(p.Protocol, ps)
	if p.APIVersion == "" && len(f.AcceptedVersions) == 0 {
		p.APIVersion, f.APIVersion = preset.APIVersion, preset.APIVersion
	}
	p.AcceptedVersions = f.acceptedVersions(p.Protocol, ps)
	p.ForwardUnknownVersion = f.ForwardUnknownVersion
	p.Rerank = f.rerank(p.Protocol, ps)
	p.Headers = f.headers(p.Auth, ps)
	p.Paths = f.paths(ps)
	p.Concurrency = f.Concurrency
	f.checkCount("concurrency", f.Concurrency, ps)
	p.Quota = provider.Quota(f.Quota)
	p.Continuation = provider.Continuation(f.Continuation)
	p.Health = f.Health.resolve(preset, ps)
	f.resolveCloud(p, outside, ps)
	f.checkKey(p, preset, ps)
	f.fileKey(p, outside)
	return p
}

// healthEvery is the default interval of health checks.
const healthEvery = duration(5 * time.Second)

func (h *healthFile) resolve(preset provider.Preset, ps *Problems) provider.Check {
	h.Path = or(h.Path, preset.HealthPath)
	if h.Path != "" && !strings.HasPrefix(h.Path, "/") {
		ps.addKey(&h.at, "path", "%q does not begin with \"/\"; write a path such as /health", h.node.writtenAt("path", ""))
	}
	if h.Every == 0 && h.Path != "" {
		h.Every = healthEvery
	}
	return provider.Check{Path: h.Path, Every: time.Duration(h.Every)}
}

func or[T ~string](value, otherwise T) T {
	if value != "" {
		return value
	}
	return otherwise
}

// checkName rejects "/" and "*": a target is split at its first "/".
func (f *providerFile) checkName(ps *Problems) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(f.node.key) {
		ps.add(f.node, "is not a name for a provider; write letters, digits, \"-\", \"_\" and \".\"")
	}
}

func (f *providerFile) preset(ps *Problems) provider.Preset {
	if preset, ok := provider.Lookup(string(f.Preset)); ok {
		return preset
	}
	if f.Preset == "" && f.Protocol == "" {
		hint := ""
		if _, ok := provider.Lookup(f.node.key); ok {
			hint = ", such as \"preset: " + f.node.key + "\""
		}
		ps.add(f.node, "has neither preset nor protocol; write one of them%s", hint)
	}
	return provider.Custom(protocol.Name(f.Protocol))
}

// validPlace reports whether a text is the name of a region or of a project. Neither may
// lead to another host or path.
func validPlace(name string) bool {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9.:-]*[a-z0-9])?$`).MatchString(name)
}

// checkPlace checks region and project: whether the preset's address, its paths or the
// signature have them, and whether they are names.
func (f *providerFile) checkPlace(auth provider.Auth, preset provider.Preset, ps *Problems) {
	inURL := func(name string) bool {
		return f.BaseURL == "" && strings.Contains(preset.Template+preset.Host, name)
	}
	for _, k := range []struct {
		key, value, example string
		needed, signed      bool
	}{
		{"region", f.Region, "us-east5", preset.InProject || inURL("{region}"), auth == provider.AWSAuth},
		{"project", f.Project, "my-project", preset.InProject || inURL("{project}"), false},
	} {
		switch {
		case k.needed && k.value == "":
			ps.addKey(&f.at, k.key, "is required for %s; write one such as %q", preset.Name, k.example)
		case !k.needed && !k.signed && k.value != "" && preset.Template == "":
			ps.addKey(&f.at, k.key, "is not a part of this provider's address; remove it")
		case k.value != "" && (!validPlace(k.value) || k.key == "region" && strings.ContainsAny(k.value, ".:")):
			ps.addKey(&f.at, k.key, "%q is not a name; write one such as %q", f.node.writtenAt(k.key, ""), k.example)
		}
	}
}

func (f *providerFile) baseURL(name protocol.Name, preset provider.Preset, ps *Problems) *url.URL {
	own := f.BaseURL != ""
	f.BaseURL = or(f.BaseURL, preset.URL(f.Project, f.Region))
	n := f.node.child("base_url")
	if !own && preset.Template != "" && (!validPlace(f.Region) || strings.Contains(f.Region, ".")) {
		return &url.URL{} // reported there
	}
	if f.BaseURL == "" {
		switch {
		case preset.Protocol == "" || f.Preset != "" && preset.Name == "":
			// no preset, or an unknown one: reported there
		case f.Preset == "azure":
			ps.addKey(&f.at, "base_url", "is required for azure; write \"https://RESOURCE.openai.azure.com/openai/v1\"")
		case f.Preset == "azure-anthropic":
			ps.addKey(&f.at, "base_url", "is required for azure-anthropic; write \"https://RESOURCE.services.ai.azure.com/anthropic\"")
		default:
			ps.addKey(&f.at, "base_url", "is required; write what the vendor's SDK takes, such as \"http://127.0.0.1:8000/v1\", or a preset")
		}
		return &url.URL{}
	}
	u, err := provider.ParseBaseURL(name, f.BaseURL)
	if err == nil {
		return u
	}
	if n == nil { // the preset's own address under another protocol
		ps.addKey(&f.at, "base_url", "of the preset does not fit the protocol: it %s", err)
	} else {
		f.badBaseURL(n, err, ps)
	}
	return &url.URL{}
}

// badBaseURL reports an invalid base_url. It quotes the value unless it may contain a
// password.
func (f *providerFile) badBaseURL(n *node, err error, ps *Problems) {
	text := strings.ReplaceAll(err.Error(), n.text, n.written)
	if strings.Contains(n.written, "@") {
		ps.add(n, "%s", text)
		return
	}
	ps.add(n, "%q %s", n.written, text)
}

func (f *providerFile) apiVersion(name protocol.Name, ps *Problems) string {
	if f.APIVersion == "" {
		return ""
	}
	if !versioned(name) {
		ps.addKey(&f.at, "api_version", "is not a part of the protocol %s; remove it, or write it into base_url as \"?api-version=...\"", name)
		return ""
	}
	if !isVersion(name, f.APIVersion) {
		ps.addKey(&f.at, "api_version", "%q is not a version of the protocol %s; write %s", f.node.writtenAt("api_version", ""), name, versionText(name))
	}
	return f.APIVersion
}

func (f *providerFile) acceptedVersions(name protocol.Name, ps *Problems) []string {
	if f.has("forward_unknown_version") && name != protocol.Anthropic {
		ps.addKey(&f.at, "forward_unknown_version", "is not a part of the protocol %s, which has no version in its headers; remove it", name)
	}
	if f.has("accepted_versions") && !versioned(name) {
		ps.addKey(&f.at, "accepted_versions", "is not a part of the protocol %s, which has no versions; remove it", name)
		return nil
	}
	for i, v := range f.AcceptedVersions {
		if !isVersion(name, v) {
			n := f.node.child("accepted_versions").children[i]
			ps.add(n, "%q is not a version of the protocol %s; write %s", n.written, name, versionText(name))
		}
	}
	return f.AcceptedVersions
}

func (f *providerFile) rerank(name protocol.Name, ps *Problems) provider.Rerank {
	if f.has("rerank") && name != protocol.OpenAIChat {
		ps.addKey(&f.at, "rerank", "is not a part of the protocol %s; remove it, or write a provider of its own with \"protocol: openai-chat\"", name)
	}
	return provider.Rerank(f.Rerank)
}

func versioned(name protocol.Name) bool { return name == protocol.Anthropic || name == protocol.Gemini }

func isVersion(name protocol.Name, version string) bool {
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

func (f *providerFile) headers(auth provider.Auth, ps *Problems) http.Header {
	if len(f.Headers) == 0 {
		return nil
	}
	out := http.Header{}
	for _, n := range f.node.child("headers").children {
		name := http.CanonicalHeaderKey(n.key)
		switch {
		case !isToken(n.key):
			ps.add(n, "is not the name of a header; write letters, digits and \"-\"")
		case name == auth.Header():
			ps.add(n, "carries the credential of auth %s; write it as api_key", auth)
		case slices.Contains(ownHeaders(), name):
			ps.add(n, "is written by the gateway itself; remove it")
		case strings.ContainsFunc(n.text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			ps.add(n, "holds a line break or another character that a header cannot carry; remove it")
		case out[name] != nil:
			ps.add(n, "is set twice in different spellings; keep one")
		}
		out[name] = []string{n.text}
	}
	return out
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

func (f *providerFile) checkKey(p *provider.Provider, preset provider.Preset, ps *Problems) {
	private := preset.Local || isPrivate(p.BaseURL.Hostname())
	switch {
	case p.Auth == provider.NoneAuth && p.Key != "":
		ps.addKey(&f.at, "api_key", "is never sent, because auth is none; remove one of them")
	case p.Auth != provider.NoneAuth && !p.Auth.Cloud() && p.Key == "" && !private && p.BaseURL.Host != "":
		env := or(preset.EnvKey, "API_KEY")
		ps.addKey(&f.at, "api_key", "is empty; write \"${%s}\", or \"auth: none\" if the provider asks for no key", env)
	case strings.ContainsFunc(p.Key.Reveal(), notInHeader):
		ps.addKey(&f.at, "api_key", "holds a space, a line break or another character that a header cannot carry; remove it")
	case p.Key != "" && p.BaseURL.Scheme == "http" && !isPrivate(p.BaseURL.Hostname()):
		ps.addKey(&f.at, "base_url", "would send api_key unencrypted over a public network; write https://")
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
func (f *providerFile) checkLoop(p *provider.Provider, listen string, ps *Problems) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || p.BaseURL.Port() != port || !isLoopback(p.BaseURL.Hostname()) {
		return
	}
	if ip, err := netip.ParseAddr(host); host == "" || isLoopback(host) || err == nil && ip.IsUnspecified() {
		ps.addKey(&f.at, "base_url", "is the address that the gateway itself listens on; write the engine's own, or another port in listen")
	}
}
