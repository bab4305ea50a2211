package config

import (
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// resolve checks the whole file and returns the configuration.
func (f *file) resolve(ps *Problems) *Config {
	c := f.resolveOwn(ps)
	f.checkServing(c, ps)
	byName := f.resolveProviders(c, ps)
	for _, m := range f.Models {
		c.Models = append(c.Models, m.resolve(c, byName, ps))
	}
	return c
}

// resolveOwn checks everything except providers and models.
func (f *file) resolveOwn(ps *Problems) *Config {
	c := &Config{
		Listen:    f.Listen,
		TLS:       f.TLS.resolve(f.dir, ps),
		ACME:      f.ACME.resolve(f.dir, ps),
		BasePath:  f.BasePath,
		Origins:   f.CORS.resolve(ps),
		Proxies:   f.networks("trusted_proxies", f.TrustedProxies, ps),
		Admin:     f.Admin.resolve(f.dir, f.has("store"), ps),
		Metrics:   f.Metrics.resolve(ps),
		Shutdown:  Shutdown{Notice: time.Duration(f.Shutdown.Notice), Drain: time.Duration(f.Shutdown.Drain)},
		Keys:      f.resolveKeys(ps),
		Identity:  f.Identity.resolve(f.dir, f.has("store"), ps),
		Timeouts:  f.Timeouts.over(provider.Timeouts{}, ps),
		Retries:   f.Retries.resolve(ps),
		Overload:  f.Overload.resolve(ps),
		Limits:    f.Limits.resolve(ps),
		KeepAlive: time.Duration(f.KeepAlive),
		Fidelity:  string(f.Fidelity),
		Gates:     f.resolveGates(ps),
		Log:       f.Log.resolve(ps),
		Traces:    f.Traces.resolve(ps),
		Telemetry: f.Telemetry.resolve(ps),
	}
	c.SignIn = f.Identity.SignIn.resolve(c.Identity, f.has("store"), ps)
	f.resolveStores(c, ps)
	f.checkListen(ps)
	return c
}

func (f *file) checkServing(c *Config, ps *Problems) {
	if c.Discover.On() {
		return
	}
	if len(f.Providers) == 0 {
		ps.addKey(&f.at, "providers", "is empty: no upstream serves models; write one, such as \"openai: {preset: openai, api_key: ${OPENAI_API_KEY}}\"")
	}
	if len(f.Models) == 0 {
		ps.addKey(&f.at, "models", "is empty: no model is served; write one, such as \"openai/*\": {targets: [\"openai/*\"]}")
	}
}

func (f *file) checkListen(ps *Problems) {
	f.checkPublic(ps)
	host, ok := f.checkAddress("listen", f.Listen, ps)
	if ok && !isLoopback(host) && len(f.Keys)+len(f.Identity.Issuers) == 0 && !f.has("store") {
		ps.addKey(&f.at, "listen", "%q is reachable from other machines without a key; add keys, set ISOGLOSS_KEYS, add a store, or listen on 127.0.0.1", f.node.writtenAt("listen", f.Listen))
	}
	for _, other := range []struct{ name, address string }{{"admin.listen", f.Admin.Listen}, {"metrics.listen", f.Metrics.Listen}} {
		if f.Listen == other.address && !strings.HasSuffix(f.Listen, ":0") {
			ps.addKey(&f.at, "listen", "is the same address as %s; write another port in one of them", other.name)
		}
	}
	if f.Metrics.Listen == f.Admin.Listen && !strings.HasSuffix(f.Admin.Listen, ":0") {
		ps.addKey(&f.Metrics.at, "listen", "is the same address as admin.listen; write another port, or use the metrics of the admin port")
	}
}

func (m *metricsFile) resolve(ps *Problems) Metrics {
	if m.Listen != "" {
		m.checkAddress("listen", m.Listen, ps)
	}
	if m.Top < 1 || m.Top > maxTop {
		ps.addKey(&m.at, "top", "is %d; write a number from 1 to %d", m.Top, maxTop)
	}
	if m.Every < duration(time.Second) {
		ps.addKey(&m.at, "every", "is less than a second; write one second or more, such as 15s")
	}
	m.checkCollector(m.Endpoint, ps)
	return Metrics{Listen: m.Listen, ByKey: string(m.ByKey), Top: m.Top, Endpoint: m.Endpoint, Every: time.Duration(m.Every)}
}

// maxTop limits the number of keys with metrics of their own.
const maxTop = 10_000

// maxLogRate limits the log lines per second. 0 is for those who want all.
const maxLogRate = 1_000_000

// checkCollector checks the key endpoint.
func (a *at) checkCollector(endpoint string, ps *Problems) {
	if endpoint == "" {
		return
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		ps.addKey(a, "endpoint", "%q is not a URL; write one such as \"http://127.0.0.1:4318\"", a.node.writtenAt("endpoint", ""))
	case u.User != nil:
		ps.addKey(a, "endpoint", "holds a user name or password; remove it")
	}
}

func (a *adminFile) resolve(dir string, store bool, ps *Problems) Admin {
	host, ok := a.checkAddress("listen", a.Listen, ps)
	if ok && !isLoopback(host) && (!store || a.TLS.Cert == "") {
		ps.addKey(&a.at, "listen", "%q is reachable from other machines; write admin.tls and a store with operators' keys, or 127.0.0.1 and a port", a.node.writtenAt("listen", a.Listen))
	}
	return Admin{Listen: a.Listen, Explicit: a.has("listen"), TLS: a.TLS.resolve(dir, ps), Open: ok && !isLoopback(host)}
}

// checkAddress checks a host:port and returns the host.
func (a *at) checkAddress(key, value string, ps *Problems) (string, bool) {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		ps.addKey(a, key, "%q is not an address; write host:port, such as 127.0.0.1:8080", a.node.writtenAt(key, value))
		return "", false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		ps.addKey(a, key, "%q has no port between 0 and 65535; write host:port, such as 127.0.0.1:8080", a.node.writtenAt(key, value))
		return "", false
	}
	return host, true
}

// isLoopback reports whether only this machine can reach the host. Names other than
// localhost count as reachable, because their addresses may change.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// minKey is the minimum length of a key.
const minKey = 16

func (f *file) resolveKeys(ps *Problems) []Key {
	seen := map[secret.String]bool{}
	var keys []Key
	for i := range f.Keys {
		raw := &f.Keys[i]
		key, n := raw.Key, raw.node
		if c := n.child("key"); c != nil {
			n = c
		}
		switch {
		case key == "":
			ps.add(n, "is empty; write a key of at least %d characters, or remove the line", minKey)
		case strings.ContainsFunc(key.Reveal(), notInHeader):
			ps.add(n, "holds a space or a character that a header cannot carry; write letters, digits and signs")
		case len(key) < minKey:
			ps.add(n, "is shorter than %d characters; write a longer one, for example from \"openssl rand -hex 24\"", minKey)
		case isKnown(key):
			ps.add(n, "is a key of an example, which everybody knows; write one from \"openssl rand -hex 24\"")
		case seen[key]:
			ps.add(n, "is the same key as one before it; keep one")
		}
		seen[key] = true
		raw.checkCount("concurrency", raw.Concurrency, ps)
		raw.Criticality = or(raw.Criticality, "normal")
		keys = append(keys, Key{Secret: key, Criticality: string(raw.Criticality), Concurrency: raw.Concurrency})
	}
	return keys
}

// checkCount reports a negative number.
func (a *at) checkCount(key string, n int, ps *Problems) {
	if n < 0 {
		ps.addKey(a, key, "is negative; write a number, or 0 for the default")
	}
}

// maxAttempts limits retries.attempts.
const maxAttempts = 10

func (r *retriesFile) resolve(ps *Problems) Retries {
	if r.Attempts < 1 || r.Attempts > maxAttempts {
		ps.addKey(&r.at, "attempts", "is not a number of attempts; write a whole number from 1, which never repeats a request, to %d", maxAttempts)
	}
	return Retries{Attempts: r.Attempts}
}

func (a *at) checkShare(key string, share float64, ps *Problems) {
	if !(share >= 0 && share <= 1) {
		ps.addKey(a, key, "is not a share; write a number from 0 to 1, such as 0.1")
	}
}

func (o *overloadFile) resolve(ps *Problems) Overload {
	o.checkCount("requests", o.Requests, ps)
	o.checkCount("per_key", o.PerKey, ps)
	o.checkCount("per_target", o.PerTarget, ps)
	o.checkCount("queue", o.Queue, ps)
	return Overload{Requests: o.Requests, PerKey: o.PerKey, PerTarget: o.PerTarget, Queue: o.Queue, Wait: time.Duration(o.Wait),
		Adaptive: o.Adaptive, Memory: int64(o.Memory)}
}

func notInHeader(r rune) bool { return r <= ' ' || r > '~' }

// over returns base with the configured timeouts set.
func (t *timeoutsFile) over(base provider.Timeouts, ps *Problems) provider.Timeouts {
	for _, f := range []struct {
		key  string
		from duration
		to   *time.Duration
	}{
		{"connect", t.Connect, &base.Connect},
		{"first_byte", t.FirstByte, &base.FirstByte},
		{"first_token", t.FirstToken, &base.FirstToken},
		{"idle", t.Idle, &base.Idle},
		{"total", t.Total, &base.Total},
	} {
		switch {
		case f.from > 0:
			*f.to = time.Duration(f.from)
		case t.has(f.key):
			ps.addKey(&t.at, f.key, "is 0; write a duration such as 30s")
		}
	}
	return base
}

// minSize is the smallest useful size limit.
const minSize = 1 << 10

func (l *limitsFile) resolve(ps *Problems) Limits {
	for _, f := range []struct {
		key   string
		value size
	}{{"body", l.Body}, {"event", l.Event}, {"answer", l.Answer}} {
		if f.value < minSize {
			ps.addKey(&l.at, f.key, "is less than 1KiB; write a size such as 64MiB")
		}
	}
	if l.Event > l.Answer {
		ps.addKey(&l.at, "event", "is more than limits.answer (%s), which holds it; write a smaller size, or a larger answer", l.Answer)
	}
	return Limits{Body: int64(l.Body), Event: int64(l.Event), Answer: int64(l.Answer), Conversations: int64(l.Conversations)}
}

func (l *logFile) resolve(ps *Problems) Log {
	level := slog.LevelInfo
	switch l.Level {
	case "debug":
		level = slog.LevelDebug
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	}
	if l.Rate < 0 || l.Rate > maxLogRate {
		ps.addKey(&l.at, "rate", "is %d; write a number from 0 to %d", l.Rate, maxLogRate)
	}
	l.checkCollector(l.Endpoint, ps)
	return Log{Level: level, Format: string(l.Format), Rate: l.Rate, Slow: time.Duration(l.Slow), Endpoint: l.Endpoint}
}

func (t *tracesFile) resolve(ps *Problems) Traces {
	t.checkShare("sample", t.Sample, ps)
	t.checkCollector(t.Endpoint, ps)
	return Traces{Endpoint: t.Endpoint, Sample: t.Sample}
}

func (t *telemetryFile) resolve(ps *Problems) Telemetry {
	t.checkCollector(t.Endpoint, ps)
	return Telemetry{Endpoint: t.Endpoint}
}
