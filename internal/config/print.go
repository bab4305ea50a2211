package config

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
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
	c.publicText(line)
	line("admin %s explicit=%t%s", c.Admin.Listen, c.Admin.Explicit, tlsText(c.Admin.TLS))
	if c.Metrics != Default().Metrics {
		line("metrics%s by_key=%s top=%d%s", word(c.Metrics.Listen), c.Metrics.ByKey, c.Metrics.Top, collectorText(c.Metrics.Endpoint))
	}
	line("shutdown notice=%s drain=%s", duration(c.Shutdown.Notice), duration(c.Shutdown.Drain))
	line("keys %d", len(c.Keys))
	for i, k := range c.Keys {
		if k.Criticality != "normal" || k.Concurrency > 0 {
			line("  key %d criticality=%s concurrency=%d", i+1, k.Criticality, k.Concurrency)
		}
	}
	for _, i := range c.Identity {
		line("identity %s rules=%d", i.URL, len(i.Rules))
		if s := i.SCIM; s != nil {
			line("  scim %s claim=%s attribute=%s required=%t", s.Path, s.Claim, s.Attribute, s.Required)
		}
	}
	if s := c.SignIn; s != nil {
		line("sign_in %s admin=%s issuer=%s client=%s", s.URL, s.Admin, s.Issuer, s.Client)
	}
	line("timeouts %s", timeoutsText(c.Timeouts))
	line("retries attempts=%d", c.Retries.Attempts)
	line("overload requests=%d per_key=%d per_target=%d queue=%d wait=%s adaptive=%t memory=%s", c.Overload.Requests, c.Overload.PerKey,
		c.Overload.PerTarget, c.Overload.Queue, duration(c.Overload.Wait), c.Overload.Adaptive, size(c.Overload.Memory))
	line("limits body=%s event=%s answer=%s conversations=%s", size(c.Limits.Body), size(c.Limits.Event), size(c.Limits.Answer), size(c.Limits.Conversations))
	line("keep_alive %s", duration(c.KeepAlive))
	line("fidelity %s", c.Fidelity)
	for _, g := range c.Gates {
		line("gate %s %s%s", g.Protocol, strings.Join(g.Patterns, " "), gatesText(g.Gates))
	}
	c.storesText(line)
	line("log %s %s%s%s", strings.ToLower(c.Log.Level.String()), c.Log.Format, c.Log.sampleText(), collectorText(c.Log.Endpoint))
	if c.Traces.Endpoint != "" {
		line("traces sample=%g", c.Traces.Sample)
	}
	if c.Telemetry.Endpoint != "" {
		line("telemetry on")
	}
	for _, p := range c.Providers {
		line("provider %s", providerText(p))
	}
	for _, m := range c.Models {
		line("model %s owned_by=%s%s", m.Name, m.OwnedBy, routingText(&m))
		for _, t := range m.Targets {
			line("  target %s weight=%d %s", t, t.Weight, timeoutsText(t.Timeouts))
		}
	}
	return b.String()
}

// routingText is how a model's targets are used, where that is not by their order
// alone.
func routingText(m *Model) string {
	var b strings.Builder
	if m.Balance != "order" {
		fmt.Fprintf(&b, " balance=%s", m.Balance)
	}
	if m.Hedge.Percentile > 0 {
		fmt.Fprintf(&b, " hedge=p%g share=%g", m.Hedge.Percentile, m.Hedge.Share)
	}
	if m.Continue {
		b.WriteString(" continue=true")
	}
	if m.Params != nil {
		fmt.Fprintf(&b, " params=%s", m.Params.JSON())
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
	first := ""
	if t.FirstToken > 0 {
		first = " first_token=" + text(t.FirstToken)
	}
	return fmt.Sprintf("connect=%s first_byte=%s%s idle=%s total=%s", text(t.Connect), text(t.FirstByte), first, text(t.Idle), text(t.Total))
}

func providerText(p *provider.Provider) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s auth=%s key=%t upstream_stream=%s include_usage=%t nvext=%s",
		p, p.Auth, p.Key != "", p.UpstreamStream, p.IncludeUsage, p.Extensions)
	if p.Cloud != nil {
		fmt.Fprintf(&b, " cloud=%s", cloudText(p.Cloud))
	}
	if p.Rerank != provider.RerankSame {
		fmt.Fprintf(&b, " rerank=%s", p.Rerank)
	}
	if p.UnknownIDs != "" {
		fmt.Fprintf(&b, " unknown_ids=%s", p.UnknownIDs)
	}
	if p.CacheSalt != "" && p.CacheSalt != provider.NoSalt {
		fmt.Fprintf(&b, " cache_salt=%s", p.CacheSalt)
	}
	if p.ThinkTags != "" {
		fmt.Fprintf(&b, " think_tags=%s", p.ThinkTags)
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
	if p.Concurrency > 0 {
		fmt.Fprintf(&b, " concurrency=%d", p.Concurrency)
	}
	if p.Quota != provider.QuotaModel {
		fmt.Fprintf(&b, " quota=%s", p.Quota)
	}
	if p.Health.Path != "" {
		fmt.Fprintf(&b, " health=%s every=%s", p.Health.Path, duration(p.Health.Every))
	}
	if p.Continuation != provider.NoContinuation && p.Continuation != "" {
		fmt.Fprintf(&b, " continuation=%s", p.Continuation)
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

// String is the target as operators write it.
func (t Target) String() string {
	if t.Provider == nil {
		return Discovered + "/" + t.Model
	}
	return t.Provider.Name + "/" + t.Model
}

// storesText prints the stores that survive a restart, if there are any.
func (c Config) storesText(line func(format string, args ...any)) {
	if c.Store.URL != "" {
		kind := "postgres"
		if c.Store.SQLite() {
			kind = "sqlite"
		}
		line("store %s data=%s peppers=%d stale=%s", kind, c.Data, len(c.Store.Peppers), duration(c.Store.Stale))
	}
	if c.Node != "" {
		line("node %s", c.Node)
	}
	if c.Zone != "" {
		line("zone %s", c.Zone)
	}
	if c.Cell != "" {
		line("cell %s", c.Cell)
	}
	if c.Redis.URL != "" {
		line("redis on")
	}
	if p := c.Prices.Ceiling; p != nil {
		line("price ceiling %s", p)
	}
	for _, r := range c.Prices.Models {
		line("price %s %s", r.Pattern, &r.Price)
	}
	for _, l := range c.Prices.Lists {
		for _, r := range l.Models {
			line("price %s %s %s as_of=%s", l.title(), r.Pattern, &r.Price, l.AsOf.Format(time.DateOnly))
		}
	}
	if c.Alerts.URL != "" {
		line("alerts thresholds=%v", c.Alerts.Thresholds)
	}
	if r := c.Retention; r.Requests > 0 {
		line("retention requests=%s hours=%s", duration(r.Requests), duration(r.Hours))
	}
	if b := c.Usage.Sink(); b != nil {
		line("usage sink %s partitions=%d spool=%s", b.Name, b.Partitions, size(c.Usage.Spool))
	}
	if h := c.Usage.ClickHouse; h != nil {
		line("usage clickhouse %s database=%s", h.URL, h.Database)
	}
	if c.Cache.TTL > 0 {
		line("cache ttl=%s size=%s", duration(c.Cache.TTL), size(c.Cache.Size))
	}
	if d := &c.Discover; d.On() {
		line("discover etcd=%s file=%q dns=%d networks=%v key=%t engine_metrics=%t", strings.Join(d.Etcd.Endpoints, ","), d.File, len(d.DNS), d.Networks, d.APIKey != "", d.EngineMetrics)
	}
}

// String is the price as it was written.
func (p *Price) String() string {
	var b strings.Builder
	for _, f := range []struct{ name, value string }{
		{"input", p.Input}, {"cache_read", p.CacheRead}, {"cache_write", p.CacheWrite}, {"output", p.Output}, {"reasoning", p.Reasoning},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s=%s", f.name, f.value)
		}
	}
	return strings.TrimSpace(b.String())
}

// publicText is the settings of the client port.
func (c Config) publicText(line func(format string, args ...any)) {
	if t := tlsText(c.TLS); t != "" {
		line("listen%s", t)
	}
	if len(c.ACME.Domains) > 0 {
		line("acme %s", strings.Join(c.ACME.Domains, " "))
	}
	if c.BasePath != "" {
		line("base_path %s", c.BasePath)
	}
	if len(c.Origins) > 0 {
		line("cors %s", strings.Join(c.Origins, " "))
	}
	for _, p := range c.Proxies {
		line("trusted_proxy %s", p)
	}
}

// tlsText is a certificate's file and what clients need.
func tlsText(t TLS) string {
	if t.Cert == "" {
		return ""
	}
	text := " tls=" + tls.VersionName(t.MinVersion) + " cert=" + t.Cert
	if t.ClientCA != "" {
		text += " client_ca=" + t.ClientCA
	}
	return text
}

// word returns a text with a space before it, or nothing.
func word(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// collectorText says that something is sent to a collector. Its address may be secret.
func collectorText(endpoint string) string {
	if endpoint == "" {
		return ""
	}
	return " sent=true"
}

// cloudText describes the source of a cloud's credential, without secrets and ids.
func cloudText(c provider.Cloud) string {
	switch c := c.(type) {
	case *provider.AWS:
		return fmt.Sprintf("aws region=%s service=%s profile=%q roles=%d", c.Region, c.Service, c.Profile, len(c.Roles))
	case *provider.Google:
		return fmt.Sprintf("google file=%q impersonate=%q scopes=%d", c.File, c.Impersonate, len(c.Scopes))
	case *provider.Azure:
		return fmt.Sprintf("azure secret=%t certificate=%q scope=%s", c.Secret != nil, c.Certificate, c.Scope)
	}
	return ""
}

// sampleText returns the settings of which exchanges are logged, if they are not the
// defaults.
func (l Log) sampleText() (text string) {
	if d := Default().Log; l.Rate != d.Rate || l.Slow != d.Slow {
		text = fmt.Sprintf(" rate=%d slow=%s", l.Rate, l.Slow)
	}
	return text
}
