package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// The printing methods have value receivers, so that neither a Config nor a
// pointer to one can be printed past them.

// String is the whole configuration as text, one fact a line, without keys and
// without the values of headers.
func (c Config) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("listen %s", c.Listen)
	line("admin %s explicit=%t", c.Admin.Listen, c.Admin.Explicit)
	line("keys %d", len(c.Keys))
	line("timeouts %s", timeoutsText(c.Timeouts))
	line("limits body=%s event=%s answer=%s", size(c.Limits.Body), size(c.Limits.Event), size(c.Limits.Answer))
	line("keep_alive %s", duration(c.KeepAlive))
	line("fidelity %s", c.Fidelity)
	for _, g := range c.Gates {
		line("gate %s %s%s", g.Protocol, strings.Join(g.Patterns, " "), gatesText(g.Gates))
	}
	line("log %s %s", strings.ToLower(c.Log.Level.String()), c.Log.Format)
	if c.Traces.Endpoint != "" {
		line("traces sample=%g", c.Traces.Sample)
	}
	for _, p := range c.Providers {
		line("provider %s", providerText(p))
	}
	for _, m := range c.Models {
		line("model %s owned_by=%s", m.Name, m.OwnedBy)
		for _, t := range m.Targets {
			line("  target %s/%s weight=%d %s", t.Provider.Name, t.Model, t.Weight, timeoutsText(t.Timeouts))
		}
	}
	return b.String()
}

// gatesText lists what is set.
func gatesText(g protocol.Gates) string {
	var b strings.Builder
	for field, value := range reflect.ValueOf(g).Fields() {
		if !value.IsZero() {
			fmt.Fprintf(&b, " %s=%v", field.Name, value)
		}
	}
	return b.String()
}

func timeoutsText(t provider.Timeouts) string {
	text := func(d time.Duration) string { return duration(d).String() }
	return fmt.Sprintf("connect=%s first_byte=%s idle=%s total=%s", text(t.Connect), text(t.FirstByte), text(t.Idle), text(t.Total))
}

func providerText(p *provider.Provider) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s auth=%s key=%t upstream_stream=%s include_usage=%t nvext=%s",
		p, p.Auth, p.Key != "", p.UpstreamStream, p.IncludeUsage, p.NvExt)
	if p.Rerank != provider.RerankSame {
		fmt.Fprintf(&b, " rerank=%s", p.Rerank)
	}
	if p.APIVersion != "" {
		fmt.Fprintf(&b, " api_version=%s", p.APIVersion)
	}
	if len(p.AcceptedVersions) > 0 {
		fmt.Fprintf(&b, " accepted_versions=%s", strings.Join(p.AcceptedVersions, ","))
	}
	if p.ForwardUnknownVersion {
		b.WriteString(" forward_unknown_version=true")
	}
	for _, q := range p.Quirks {
		fmt.Fprintf(&b, " rename=%s:%s", q.Rename, q.To)
	}
	if len(p.Headers) > 0 {
		fmt.Fprintf(&b, " headers=%d", len(p.Headers))
	}
	for _, path := range p.Paths {
		fmt.Fprintf(&b, " path=%q", path.Method+" "+path.Path)
	}
	return b.String() + " " + timeoutsText(p.Timeouts)
}

// Format prints String for every verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// LogValue gives slog a summary; the whole may be long.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("listen", c.Listen), slog.String("admin", c.Admin.Listen), slog.Int("keys", len(c.Keys)),
		slog.Int("providers", len(c.Providers)), slog.Int("models", len(c.Models)))
}
