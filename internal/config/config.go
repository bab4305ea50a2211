package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/agentapi"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/codec/gates"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/ledger/alerts"
	"github.com/isogloss-gateway/isogloss/internal/ledger/retention"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/internal/request/cache"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// Config is the whole configuration. A value may contain `${VAR}` for an environment variable,
// `${VAR:-text}` for a variable with a default, or `${FILE:path}` for the contents of a file.
// Write `$$` for a dollar sign. Relative paths are relative to the folder of the configuration
// file.
type Config struct {
	// Address for clients, as host:port. An address other than loopback requires
	// keys, identity or a store.
	Listen string `key:"listen" default:"127.0.0.1:8080" restart:"yes" example:"0.0.0.0:8080"`
	// Certificate of the client port. Without it and without acme the port is plain
	// HTTP.
	TLS certs.Files `key:"tls" restart:"yes"`
	// Certificate of the client port from an ACME authority, instead of tls.
	ACME certs.ACME `key:"acme" restart:"yes"`
	// Path prefix of all client paths, for a reverse proxy that does not remove it.
	// Probes are served with and without it.
	BasePath string `key:"base_path" restart:"yes" example:"/llm"`
	// Serve HTTP/2 on the client port without TLS too, for a proxy in front that speaks it
	// (h2c, with prior knowledge). The default is false: such connections are refused.
	H2C bool `key:"h2c" restart:"yes" example:"true"`
	// Requests from web pages of other origins. Refused by default.
	CORS ingress.CORS `key:"cors" restart:"yes"`
	// Networks of reverse proxies. If a request comes from one of them, the client's
	// address is the last one in X-Forwarded-For that is not such a proxy. Keys with
	// networks are checked against it. None by default.
	TrustedProxies []netip.Prefix `key:"trusted_proxies" restart:"yes" example:"[10.0.0.0/8]"`
	// The admin port: metrics and the admin API.
	Admin Admin `key:"admin" restart:"yes"`
	// A second port for metrics and probes.
	Metrics observe.MetricSettings `key:"metrics" restart:"yes"`
	// How the gateway stops on SIGTERM and SIGINT.
	Shutdown Shutdown `key:"shutdown" restart:"yes"`
	// Client keys, each of at least 16 characters. An entry is the key itself or a
	// mapping. Without keys, identity and store, requests need no key and the
	// gateway listens on loopback only.
	Keys []access.Key `key:"keys" example:"[\"${TEAM_KEY}\"]"`
	// Identity providers. Their tokens admit people and workloads without keys.
	IdentitySettings identity.Settings `key:"identity"`
	// Upstreams, each under a name of your choice.
	ProviderSettings settings.Table[provider.Settings] `key:"providers"`
	// Models, under the names that clients use. A name that ends in `*` matches
	// every model with that prefix.
	ModelSettings settings.Table[modelFile] `key:"models"`
	// Time limits of a request. A provider or a model can override them.
	Timeouts provider.Timeouts `key:"timeouts"`
	// Retries and failover.
	Retries exchange.Retries `key:"retries"`
	// Limits on concurrent requests.
	Overload limit.Config `key:"overload"`
	// Limits on memory.
	Limits exchange.Limits `key:"limits"`
	// Interval of comment lines on an idle stream, which keep proxies from closing
	// it. The default, 0, turns them off. A translated Messages stream that has begun has a
	// ping every 15 seconds in any case.
	KeepAlive time.Duration `key:"keep_alive" example:"15s"`
	// How to translate a request that the upstream's dialect cannot express exactly.
	// With default, the gateway refuses what would change the meaning and
	// approximates or drops the rest. With strict, it refuses any loss. With loose,
	// it drops whatever it can. The header Isogloss-Fidelity reports the result. A
	// client can choose for one request with the header Isogloss-Fidelity-Mode.
	Fidelity string `key:"fidelity" default:"default" enum:"strict,default,loose" example:"strict"`
	// Rules about what models accept, used for translated requests. The first
	// matching rule applies. These come before the built-in rules.
	GateSettings []provider.GateSettings `key:"gates"`
	// Unique name of this node among several. The default is the host name.
	Node string `key:"node" pattern:"^[A-Za-z0-9._-]{0,64}$" form:"a name of up to 64 letters, digits, \".\", \"-\" and \"_\"" restart:"yes" example:"gw-1"`
	// Zone in which this node runs, such as an availability zone. Discovered workers of
	// the same zone are tried before others. By default zones do not matter.
	Zone string `key:"zone" pattern:"^[A-Za-z0-9._-]{0,64}$" form:"a name of up to 64 letters, digits, \".\", \"-\" and \"_\"" example:"eu-west-1a"`
	// Cell that this node belongs to: 1 to 16 lower-case letters. New keys have it in
	// their text (`gw_CELL_…`), by which a router sends their requests here. By default
	// there are no cells.
	Cell string `key:"cell" pattern:"^[a-z]{0,16}$" form:"a name of 1 to 16 lower-case letters other than live and admin, which other keys have" restart:"yes" example:"eu"`
	// Folder for the SQLite file, the spool, snapshots of keys and workers, and the
	// pepper. The gateway creates it when needed. Processes of one node share it;
	// nodes do not.
	Data string `key:"data" default:"isogloss-data" is:"file" restart:"yes" example:"/var/lib/isogloss"`
	// Database for client keys and the ledger. With it every request needs a key.
	// Without it neither keys nor usage are written to disk.
	Store Store `key:"store" restart:"yes"`
	// Shared limits of several gateways. By default limits are in memory and apply
	// to one gateway.
	Redis redis.Settings `key:"redis" restart:"yes"`
	// Token prices, in addition to the built-in ones.
	Prices usage.Prices `key:"prices"`
	// Alerts by webhook, Slack and e-mail: about budgets, targets, stores, and what
	// expires. They require a store, and the same settings on all gateways.
	Alerts alerts.Settings `key:"alerts" restart:"yes"`
	// How long the store keeps requests and their sums. It keeps everything by default.
	Retention retention.Policy `key:"retention"`
	// What the ledger records of the tags and end users that clients send. It requires
	// a store.
	Tags usage.LabelRules `key:"tags"`
	// Usage events in Kafka or NATS JetStream and requests in ClickHouse, for fleets that
	// one PostgreSQL cannot follow. Off by default.
	Usage Usage `key:"usage" restart:"yes"`
	// Cache of responses to deterministic requests. Off by default.
	Cache cache.Settings `key:"cache" restart:"yes"`
	// Sources of workers. Their models are served under the names that they
	// register. The target `discovered/NAME` stands for all workers of that name.
	Discover discover.Settings `key:"discover" restart:"yes"`
	// Log level and format.
	Log observe.LogSettings `key:"log" restart:"yes"`
	// OpenTelemetry traces.
	Traces observe.TraceSettings `key:"traces" restart:"yes"`
	// OpenTelemetry data of coding agents, such as Claude Code, which send it to the
	// gateway.
	Telemetry agentapi.Telemetry `key:"telemetry" restart:"yes"`

	// What the tables and lists above, which are nil afterwards, become.
	Providers []*provider.Provider
	Models    []Model
	Gates     []gates.Rule
	Identity  []identity.Issuer
	SignIn    *identity.SignIn // nil: none

	settings.Listing
	alone   bool // a configuration without providers and models is complete
	isPlace bool // it is that of a Place, which has no other settings
}

// LogValue gives slog a summary; the whole may be long.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("listen", c.Listen), slog.String("admin", c.Admin.Listen), slog.Int("keys", len(c.Keys)),
		slog.Int("providers", len(c.Providers)), slog.Int("models", len(c.Models)))
}
