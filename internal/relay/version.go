package relay

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
)

// defaultVersion is what a client of Anthropic's dialect is taken to speak that
// does not say.
func defaultVersion() string { return anthropic.Versions()[0].Name }

// acceptsVersion reports whether a provider of Anthropic's dialect takes requests
// of a version as they are.
func acceptsVersion(p *provider.Provider, version string) bool {
	if version == "" {
		version = defaultVersion()
	}
	switch {
	case version == p.APIVersion, slices.Contains(p.AcceptedVersions, version):
		return true
	case anthropic.CheckVersion(version) != nil:
		return p.ForwardUnknownVersion
	}
	return p.APIVersion == "" && len(p.AcceptedVersions) == 0
}

// upstreamVersion is the version that translated requests are written in; empty is
// the protocol's own default.
func upstreamVersion(p *provider.Provider) string {
	if p.APIVersion != "" {
		return p.APIVersion
	}
	for _, v := range p.AcceptedVersions {
		if p.Protocol != protocol.Anthropic || anthropic.CheckVersion(v) == nil {
			return v
		}
	}
	return ""
}

// geminiVersion is the version that an upstream is asked in by a client of the same
// dialect: the client's, unless the provider's row says otherwise. Bodies are the
// same in all of them.
func (e endpoint) geminiVersion(t route.Target) string {
	p := t.Provider
	if own := upstreamVersion(p); own != "" {
		if slices.Contains(p.AcceptedVersions, e.version) {
			return e.version
		}
		return own
	}
	knows := slices.ContainsFunc(gemini.Versions(), func(v gemini.Version) bool { return v.Name == e.version && v.Latest })
	if strings.HasSuffix(t.Model, "-latest") && !knows {
		return gemini.DefaultVersion // VER-22
	}
	return e.version
}

// checkVersion refuses what cannot be sent on as it is: a version that nobody here
// knows, and conversations that the vendor keeps where the next request may go to
// another account.
func (x *exchange) checkVersion(targets int) *llm.Error {
	if x.endpoint.dialect != protocol.Anthropic {
		return nil
	}
	said := x.client.Header.Values("Anthropic-Version")
	if len(slices.Compact(slices.Clone(said))) > 1 {
		return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_version", Param: anthropic.VersionHeader,
			Message: anthropic.VersionHeader + " was sent with several values; send one"}
	}
	if !x.endpoint.verbatim(x.target.Provider) {
		if err := anthropic.CheckVersion(x.endpoint.version); err != nil {
			return err
		}
	}
	if x.ask.raw("thread") != nil && (targets > 1 || x.target.Provider.BaseURL.Hostname() != "api.anthropic.com") {
		return anthropic.ThreadUnsupported()
	}
	return nil
}

// samples reports whether some version that a provider takes has sampling values.
func samples(p *provider.Provider) bool {
	return slices.ContainsFunc(anthropic.Versions(), func(v anthropic.Version) bool { return v.Sampling && acceptsVersion(p, v.Name) })
}

// outOfVersion reports sampling values in a request of a version that refuses them:
// another dialect takes them all the same. VER-05
func (x *exchange) outOfVersion(ask *llm.Request, report *llm.Report) {
	if x.endpoint.dialect != protocol.Anthropic {
		return
	}
	for _, v := range anthropic.Versions() {
		if v.Name != x.endpoint.version || v.Sampling {
			continue
		}
		for _, s := range []struct {
			name  string
			value llm.Number
		}{{"temperature", ask.Sampling.Temperature}, {"top_p", ask.Sampling.TopP}, {"top_k", ask.Sampling.TopK}} {
			if s.value != "" {
				report.Approximate("sampling."+s.name, "sampling.version", s.name+" is not a part of version "+v.Name+"; it is passed on")
			}
		}
	}
}
