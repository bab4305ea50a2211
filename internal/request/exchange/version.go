package exchange

import (
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Verbatim reports whether a provider accepts the client's body as it is: it has the same
// dialect and version, the stream format that the client reads, and no reasoning in the
// text that has to be separated.
func (c *Call) Verbatim(p *provider.Provider) bool {
	if p.Protocol != c.Dialect.Name || c.Array || p.ThinkTags.Parses() && c.Operation == codec.Generate || c.Rerank != nil && slices.Contains(c.Rerank.Forms, string(p.Rerank)) {
		return false
	}
	return acceptsVersion(c.Dialect, p, c.Version)
}

// acceptsVersion reports whether a provider accepts requests of a version of its dialect
// without translation. An empty version is the dialect's default.
func acceptsVersion(d *codec.Dialect, p *provider.Provider, version string) bool {
	v := d.Versions
	if v == nil || v.SameBodies {
		return true
	}
	if version == "" {
		version = v.Known[0].Name
	}
	switch {
	case version == p.APIVersion, slices.Contains(p.AcceptedVersions, version):
		return true
	case v.Check(version) != nil:
		return p.ForwardUnknownVersion
	}
	return p.APIVersion == "" && len(p.AcceptedVersions) == 0
}

// upstreamVersion returns the version of requests to a provider; empty is the dialect's
// default.
func upstreamVersion(d *codec.Dialect, p *provider.Provider) string {
	if p.APIVersion != "" {
		return p.APIVersion
	}
	for _, name := range p.AcceptedVersions {
		if d.Versions == nil || d.Versions.Check == nil || d.Versions.Check(name) == nil {
			return name
		}
	}
	return ""
}

// CheckVersion rejects a request of an unknown version that has to be translated. It also
// rejects a request that continues a conversation stored at the vendor if it may reach
// another account. targets is the number of the route's targets.
func (c *Call) CheckVersion(t *Target, targets int) *llm.Error {
	d := c.Dialect
	if v := d.Versions; v != nil && v.Header != "" {
		if sent := c.Client.Header.Values(v.Header); len(slices.Compact(slices.Clone(sent))) > 1 {
			name := strings.ToLower(v.Header)
			return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_version", Param: name, Message: name + " was sent with several values; send one"}
		}
		if !c.Verbatim(t.Provider) {
			if err := v.Check(c.Version); err != nil {
				return err
			}
		}
	}
	if d.VendorHost != "" && (targets > 1 || t.Provider.BaseURL.Hostname() != d.VendorHost) {
		return d.CheckState(&c.Body.Index)
	}
	return nil
}

// EncodeTarget returns a target as the codec needs it to encode a request.
func (c *Call) EncodeTarget(t *Target) protocol.Target {
	p := t.Provider
	out := protocol.Target{Model: t.Model, Version: upstreamVersion(t.Dialect, p), Gates: c.Settings.Gates.For(p.Protocol, t.Model)}
	out.Gates.NoCustom, out.Gates.LongIDs = !p.KnowsCustomTools(), !p.LimitsCallIDs()
	if !acceptsSampling(t.Dialect, p) {
		out.Gates.NoSampling = true
	}
	return out
}

// acceptsSampling reports whether a provider accepts sampling values in some version of
// its dialect.
func acceptsSampling(d *codec.Dialect, p *provider.Provider) bool {
	if d.Versions == nil {
		return true
	}
	return slices.ContainsFunc(d.Versions.Known, func(v codec.Version) bool { return !v.NoSampling && acceptsVersion(d, p, v.Name) })
}

// UpstreamPath returns the path of a verbatim request.
func (c *Call) UpstreamPath(t *Target, stream bool) (string, *llm.Error) {
	if c.Dialect.UpstreamPath == nil {
		return c.URLPath, nil
	}
	version := upstreamVersion(c.Dialect, t.Provider)
	if version != "" && slices.Contains(t.Provider.AcceptedVersions, c.Version) {
		version = c.Version
	}
	return c.Dialect.UpstreamPath(c.Location, protocol.Target{Model: t.Model, Version: version}, stream)
}

// DialectHeaders returns the client's headers that only its own dialect defines, with
// defaults for missing ones.
func (c *Call) DialectHeaders() http.Header {
	h := http.Header{}
	for _, rule := range c.Dialect.Headers.Request {
		if v := c.Client.Header[rule.Name]; len(v) > 0 {
			h[rule.Name] = v
		} else if rule.Default != "" {
			h[rule.Name] = []string{rule.Default}
		}
	}
	return h
}
