package config

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// The structs below and those of the other files of this name are the file as it is written. Their comments are the
// reference page and the JSON Schema: run `go test ./internal/config -update`
// after changing one. The tag example is shown there. The tag restart says that a reload does not change what is set, on
// a section for all below it; restart:"no" takes a field out again. The tag secret is explained in settings.go.

// file is the whole configuration. A value may contain `${VAR}`, which is replaced
// by that environment variable, `${VAR:-text}`, which falls back to `text` if the
// variable is unset or empty, or `${FILE:path}`, which is replaced by the contents of
// that file. Write `$$` for a dollar sign. Relative paths are relative to the folder of
// the configuration file.
type file struct {
	at
	dir string // of the configuration file; relative paths are relative to it
	env func(string) (string, bool)
	// Address for clients, as host:port. An address other than loopback requires
	// keys, identity or a store.
	Listen string `key:"listen" restart:"yes" example:"0.0.0.0:8080"`
	// Certificate of the client port. Without it and without acme the port is plain
	// HTTP.
	TLS tlsFile `key:"tls" restart:"yes"`
	// Certificate of the client port from an ACME authority, instead of tls.
	ACME acmeFile `key:"acme" restart:"yes"`
	// Path prefix of all client paths, for a reverse proxy that does not remove it.
	// Probes are served with and without it.
	BasePath string `key:"base_path" restart:"yes" example:"/llm"`
	// Requests from web pages of other origins. Refused by default.
	CORS corsFile `key:"cors" restart:"yes"`
	// Networks of reverse proxies. If a request comes from one of them, the client's
	// address is the last one in X-Forwarded-For that is not such a proxy. Keys with
	// networks are checked against it. None by default.
	TrustedProxies []string `key:"trusted_proxies" restart:"yes" example:"[10.0.0.0/8]"`
	// The admin port: metrics and the admin API.
	Admin adminFile `key:"admin" restart:"yes"`
	// A second port for metrics and probes.
	Metrics metricsFile `key:"metrics" restart:"yes"`
	// How the gateway stops on SIGTERM and SIGINT.
	Shutdown shutdownFile `key:"shutdown" restart:"yes"`
	// Client keys, each of at least 16 characters. An entry is the key itself or a
	// mapping. Without keys and store, requests need no key and the gateway listens
	// on loopback only.
	Keys []keyFile `key:"keys" example:"[\"${TEAM_KEY}\"]"`
	// Identity providers. Their tokens admit people and workloads without keys.
	Identity identityFile `key:"identity"`
	// Upstreams, each under a name of your choice.
	Providers table[providerFile] `key:"providers"`
	// Models, under the names that clients use. A name that ends in `*` matches
	// every model with that prefix.
	Models table[modelFile] `key:"models"`
	// Time limits of a request. A provider or a model can override them.
	Timeouts timeoutsFile `key:"timeouts"`
	// Retries and failover.
	Retries retriesFile `key:"retries"`
	// Limits on concurrent requests.
	Overload overloadFile `key:"overload"`
	// Limits on memory.
	Limits limitsFile `key:"limits"`
	// Interval of comment lines on an idle stream, which keep proxies from closing
	// it. The default, 0, turns them off. A translated Messages stream that has begun has a
	// ping every 15 seconds in any case.
	KeepAlive duration `key:"keep_alive" example:"15s"`
	// How to translate a request that the upstream's dialect cannot express exactly.
	// With default, the gateway refuses what would change the meaning and
	// approximates or drops the rest. With strict, it refuses any loss. With loose,
	// it drops whatever it can. The header Isogloss-Fidelity reports the result. A
	// client can choose for one request with the header Isogloss-Fidelity-Mode.
	Fidelity fidelityName `key:"fidelity" example:"strict"`
	// Rules about what models accept, used for translated requests. The first
	// matching rule applies. These come before the built-in rules.
	Gates []gateFile `key:"gates"`
	// Unique name of this node among several. The default is the host name.
	Node string `key:"node" restart:"yes" example:"gw-1"`
	// Zone in which this node runs, such as an availability zone. Discovered workers of
	// the same zone are tried before others. By default zones do not matter.
	Zone string `key:"zone" example:"eu-west-1a"`
	// Cell that this node belongs to: 1 to 16 lower-case letters. New keys have it in
	// their text (`gw_CELL_…`), by which a router sends their requests here. By default
	// there are no cells.
	Cell string `key:"cell" restart:"yes" example:"eu"`
	// Folder for the SQLite file, the spool, snapshots of keys and workers, and the
	// pepper. The gateway creates it when needed. Processes of one node share it;
	// nodes do not.
	Data string `key:"data" restart:"yes" example:"/var/lib/isogloss"`
	// Database for client keys and the ledger. With it every request needs a key.
	// Without it the gateway writes nothing to disk.
	Store storeFile `key:"store" restart:"yes"`
	// Shared limits of several gateways. By default limits are in memory and apply
	// to one gateway.
	Redis redisFile `key:"redis" restart:"yes"`
	// Token prices, in addition to the built-in ones.
	Prices pricesFile `key:"prices"`
	// A webhook that is called when the spending of a budget passes a threshold. It
	// requires a store, and the same settings on all gateways.
	Alerts alertsFile `key:"alerts" restart:"yes"`
	// How long the store keeps requests and their sums. It keeps everything by default.
	Retention retentionFile `key:"retention"`
	// What the ledger records of the tags and end users that clients send. It requires
	// a store.
	Tags tagsFile `key:"tags"`
	// Usage events in Kafka or NATS JetStream and requests in ClickHouse, for fleets that
	// one PostgreSQL cannot follow. Off by default.
	Usage usageFile `key:"usage" restart:"yes"`
	// Cache of responses to deterministic requests. Off by default.
	Cache cacheFile `key:"cache" restart:"yes"`
	// Sources of workers. Their models are served under the names that they
	// register. The target `discovered/NAME` stands for all workers of that name.
	Discover discoverFile `key:"discover" restart:"yes"`
	// Log level and format.
	Log logFile `key:"log" restart:"yes"`
	// OpenTelemetry traces.
	Traces tracesFile `key:"traces" restart:"yes"`
	// OpenTelemetry data of coding agents, such as Claude Code, which send it to the
	// gateway.
	Telemetry telemetryFile `key:"telemetry" restart:"yes"`
}

// keyFile is a client key written as a mapping.
type keyFile struct {
	at
	// The key.
	Key secret.String `key:"key" example:"${TEAM_KEY}"`
	// Priority of its requests under overload. A request can lower it with the
	// header Isogloss-Criticality. The default is normal.
	Criticality className `key:"criticality" example:"critical"`
	// Maximum number of open requests. The default is overload.per_key.
	Concurrency int `key:"concurrency" example:"8"`
}

// fromText lets a key be written alone.
func (k *keyFile) fromText(text string) { k.Key = secret.String(text) }

// adminFile is the listener for metrics and the admin API.
type adminFile struct {
	at
	// Address of the metrics and the admin API. An address other than loopback
	// requires tls and a store, and then every request to it needs an operator key.
	Listen string `key:"listen" example:"127.0.0.1:9090"`
	// Certificate of the admin port.
	TLS tlsFile `key:"tls"`
}

// metricsFile is a plain listener that Prometheus and probes can reach without a key.
type metricsFile struct {
	at
	// Address that serves `/metrics`, `/live` and `/ready` over plain HTTP and
	// nothing else. None by default: metrics are on the admin port.
	Listen string `key:"listen" example:":9090"`
	// Which keys, teams, organisations and models have metrics of their own for
	// spend, tokens and refusals: none, those with the most use, or all (at most
	// 10,000). The others are counted together as `other`.
	ByKey byKeyName `key:"by_key" example:"all"`
	// Number of keys, teams, organisations and models for `by_key: top`. Above 256 it is
	// also the number of pairs of model and provider that have other metrics of their own.
	Top int `key:"top" example:"500"`
	// URL of an OTLP/HTTP collector that metrics are sent to. Without it they are
	// only scraped.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
	// Interval at which metrics are sent to the collector.
	Every duration `key:"every" example:"15s"`
}

// shutdownFile is how the gateway stops on SIGTERM and SIGINT. The sum plus two seconds
// must be less than the time that the supervisor leaves before it kills the process.
type shutdownFile struct {
	at
	// Time between failing readiness and closing the port. New requests are served
	// during it, so that load balancers can notice.
	Notice duration `key:"notice" example:"5s"`
	// Time for open requests to finish. Those that are open afterwards end with an
	// error.
	Drain duration `key:"drain" example:"10m"`
}

// tlsFile is a certificate and its private key. The gateway reads the files again when
// they change.
type tlsFile struct {
	at
	// PEM file with the certificate and its intermediates.
	Cert string `key:"cert" example:"/etc/isogloss/server.crt"`
	// PEM file with the private key.
	Key string `key:"key" example:"/etc/isogloss/server.key"`
	// PEM file with the authorities of client certificates. With it every client
	// needs a certificate. None by default.
	ClientCA string `key:"client_ca" example:"/etc/isogloss/clients.crt"`
	// Lowest TLS version. The default is 1.2.
	MinVersion tlsVersionName `key:"min_version" example:"1.3"`
}

// acmeFile is an ACME authority such as Let's Encrypt. The gateway must be reachable on
// port 443 under the domains.
type acmeFile struct {
	at
	// Domains of the certificate.
	Domains []string `key:"domains" example:"[llm.example.com]"`
	// Contact address for the authority. None by default.
	Email string `key:"email" example:"ops@example.com"`
	// Directory URL of the authority. The default is Let's Encrypt.
	Directory string `key:"directory" example:"https://acme-staging-v02.api.letsencrypt.org/directory"`
	// PEM file with the authorities of the directory's own certificate. The default
	// is the system's.
	CA string `key:"ca" example:"/etc/isogloss/acme-ca.crt"`
	// Folder of the certificates. Gateways that serve the same domains need a common
	// one: then all of them serve the same certificate. The default is the folder
	// `acme` in the data folder.
	Storage string `key:"storage" example:"/mnt/isogloss-acme"`
}

// corsFile is the set of web pages that may call the gateway from a browser.
type corsFile struct {
	at
	// Origins, each as scheme and host, or `*` for every origin.
	Origins []string `key:"origins" example:"[\"https://app.example.com\"]"`
}

// providerFile is one upstream. It needs `preset`, or `protocol` and `base_url`.
// Settings here override the preset.
type providerFile struct {
	at
	// A known vendor or engine. It sets protocol, address and quirks.
	Preset presetName `key:"preset" example:"openai"`
	// Protocol of the upstream. The default is the preset's.
	Protocol protocolName `key:"protocol" example:"openai-chat"`
	// Base URL as the vendor's SDK takes it: with `/v1` for the two protocols of
	// OpenAI (added to a bare origin), the bare origin for anthropic and gemini. A
	// query is kept. `{model}` in the path is replaced by the target's model, as for
	// deployments of Azure. The default is the preset's.
	BaseURL string `key:"base_url" example:"http://127.0.0.1:8000/v1"`
	// Region of a cloud, or location of Google Cloud. For presets of clouds it is a part of
	// the host name, and on Vertex AI of the path. For `auth: aws` it is also the region of
	// the signature; there the default is the region in the host name of the base URL, or
	// the environment variable AWS_REGION.
	Region string `key:"region" example:"us-east5"`
	// Project of Google Cloud, for the presets of Vertex AI.
	Project string `key:"project" example:"my-project"`
	// Credential. Optional for auth none, aws, google and azure, for engines, and for
	// addresses in a private network. Written as `${FILE:path}`, the file is read again
	// when it changes.
	APIKey secret.String `key:"api_key" example:"${OPENAI_API_KEY}"`
	// Header of the credential, or the cloud that it comes from. The default is the
	// preset's or the protocol's. With aws, requests are signed with SigV4, or api_key is a
	// Bedrock API key; with google and azure they have a token of that cloud.
	Auth authName `key:"auth" example:"bearer"`
	// Source of the credential for `auth: aws`.
	AWS awsFile `key:"aws"`
	// Source of the credential for `auth: google`.
	Google googleFile `key:"google"`
	// Source of the credential for `auth: azure`.
	Azure azureFile `key:"azure"`
	// Version of the anthropic or gemini protocol to request. The default is the
	// protocol's own.
	APIVersion string `key:"api_version" example:"2023-06-01"`
	// Versions of the anthropic or gemini protocol that the upstream also accepts. A
	// client that requests one of them gets it. The default is every known version,
	// or only api_version if that is set.
	AcceptedVersions []string `key:"accepted_versions" example:"[\"2023-06-01\"]"`
	// Forward requests that use an unknown version of the anthropic protocol without
	// reading them. The default is false: they are refused.
	ForwardUnknownVersion bool `key:"forward_unknown_version" example:"true"`
	// Headers added to every request.
	Headers map[string]string `key:"headers" secret:"values" example:"{X-Team: search}"`
	// Whether to stream from the upstream always or only if the client streams. With
	// always, the gateway assembles one body for a non-streaming client. The default
	// is always for engines and mirror for others. A request without an output limit is
	// streamed in any case if the caller has a budget.
	UpstreamStream streamName `key:"upstream_stream" example:"always"`
	// Request token counts on streams even if the client did not. The default is
	// false.
	IncludeUsage bool `key:"include_usage" example:"true"`
	// How to treat the member nvext of a request: forward it, drop and report it, or
	// refuse the request. The default is refuse, and forward for the preset dynamo.
	NvExt nvExtName `key:"nvext" example:"forward"`
	// What to do with a request that names an id of something that the provider keeps,
	// such as a response or a file, if the gateway does not know whose it is. An id of
	// another organisation is always refused. The default is refuse if several
	// organisations have keys, and forward otherwise.
	UnknownIDs unknownIDsName `key:"unknown_ids" example:"forward"`
	// Salt of the engine's prefix cache, sent as cache_salt in place of the client's own:
	// tenant sends one for each organisation, or for each key of this file; shared does
	// so if several organisations have keys. The default is shared for the preset vllm,
	// and none for others.
	CacheSalt cacheSaltName `key:"cache_salt" example:"tenant"`
	// Reasoning that the engine leaves in the text as `<think>…</think>`: none leaves it
	// there; start separates it from a text that begins with `<think>`; opened is for
	// prompt templates that end with `<think>`, so that every text begins with
	// reasoning. Requests to such a provider are always translated. The default is none.
	ThinkTags thinkTagsName `key:"think_tags" example:"start"`
	// Format of `/v1/rerank` at this provider: same forwards the request unchanged;
	// cohere and jina translate it to that vendor's format. The default is same. The
	// base URL is `https://api.cohere.com` for Cohere and `https://api.jina.ai/v1`
	// for Jina.
	Rerank rerankName `key:"rerank" example:"cohere"`
	// Further requests to forward to this provider, each an exact method and path.
	Paths []string `key:"paths" example:"[\"POST /v1/audio/speech\"]"`
	// Time limits of a request to this provider.
	Timeouts timeoutsFile `key:"timeouts"`
	// Maximum number of open requests per model of this provider. The default is
	// overload.per_target.
	Concurrency int `key:"concurrency" example:"64"`
	// Scope of this provider's rate limits: one model, or all models of the
	// credential. The default is model.
	Quota quotaName `key:"quota" example:"provider"`
	// Active health check, made if a model has another target.
	Health healthFile `key:"health"`
	// How to continue a stream that broke off, for models with continue: trailing
	// sends the delivered text as a last assistant message, vllm adds vLLM's
	// continue_final_message, prefix adds a prefix mark. The default is the
	// preset's, or none.
	Continuation continuationName `key:"continuation" example:"vllm"`
}

// healthFile is an active health check.
type healthFile struct {
	at
	// Path of the GET request on the origin of the provider. A 2xx status means
	// healthy. The default is /health for engines and none for others.
	Path string `key:"path" example:"/health"`
	// Interval. The default is 5s.
	Every duration `key:"every" example:"2s"`
}

// gateFile is a rule about what certain models accept.
type gateFile struct {
	at
	// Upstream model names. `*` matches any text; case is ignored, and a dot equals
	// a dash.
	Match string `key:"match" example:"claude-x*"`
	// Protocol of the upstream.
	Protocol protocolName `key:"protocol" example:"anthropic"`
	// Output limit to send if the protocol requires one and the client set none. The
	// default is the protocol's own.
	MaxOutput int `key:"max_output" example:"64000"`
	// Drop temperature, top_p and top_k. The default is false.
	NoSampling bool `key:"no_sampling" example:"true"`
	// Do not force a tool call. The default is false.
	NoForcedTool bool `key:"no_forced_tool" example:"true"`
	// Drop stop sequences. The default is false.
	NoStop bool `key:"no_stop" example:"true"`
	// Set reasoning by effort. The default is false.
	Adaptive bool `key:"adaptive" example:"true"`
	// Set reasoning by a number of tokens. The default is false.
	Budget bool `key:"budget" example:"true"`
	// Accepted levels of effort. The default is all.
	Efforts []string `key:"efforts" example:"[low, high]"`
	// Allow system messages inside a conversation. The default is false.
	MidSystem bool `key:"mid_system" example:"true"`
	// Replace the role developer by system. The default is false.
	SystemOnly bool `key:"system_only" example:"true"`
	// Name of the output limit, if the protocol has two names for it.
	MaxTokensName string `key:"max_tokens_name" example:"max_tokens"`
	// Member in which to send the reasoning of earlier responses. By default it is
	// not sent.
	ReasoningHistory string `key:"reasoning_history" example:"reasoning_content"`
}

// modelFile is one model name for clients.
type modelFile struct {
	at
	// Targets, each `provider/model` or a mapping with a weight. If one fails before
	// the client has received anything, the gateway tries the next. If the model's
	// name ends in `*`, one `*` in a target stands for the rest of the name.
	Targets []targetFile `key:"targets" example:"[openai/gpt-6-luna]"`
	// Owner shown in model lists. The default is the first target's provider.
	OwnedBy string `key:"owned_by" example:"search-team"`
	// Order of the targets: order tries them as listed; weight picks at random by
	// weight; least-busy prefers the less busy of two; fastest prefers the faster of
	// two; cache prefers the target that probably has the conversation in its prompt
	// cache. The default is order, and weight if a target has a weight.
	Balance balanceName `key:"balance" example:"least-busy"`
	// Second attempt beside a slow first one. Off by default.
	Hedge hedgeFile `key:"hedge"`
	// Continue a stream that breaks off, if a target has a continuation. The default
	// is false: the stream ends with an error.
	Continue bool `key:"continue" example:"true"`
	// Time limits of a request for this model.
	Timeouts timeoutsFile `key:"timeouts"`
	// Parameters of requests that do not set them.
	Defaults paramsFile `key:"defaults"`
	// Parameters that replace those of the client. A response whose request had
	// another value has the code model.override in Isogloss-Fidelity.
	Override paramsFile `key:"override"`
}

// paramsFile is a set of parameters. Each is sent in the form that the upstream's
// protocol and model have for it, and left out if they have none.
type paramsFile struct {
	at
	// How much the model reasons.
	Effort effortName `key:"effort" example:"high"`
	// Sampling temperature, from 0 to 2.
	Temperature float64 `key:"temperature" example:"0.2"`
	// Share of the most probable tokens to sample from, from 0 to 1.
	TopP float64 `key:"top_p" example:"0.9"`
	// Output limit in tokens, including reasoning. The reservation of a budget
	// counts it.
	MaxTokens int `key:"max_tokens" example:"4096"`
	// Further top-level members of the request, in the protocol of the targets.
	// Members that the gateway acts on, such as model and messages, are refused.
	Body jsonObject `key:"body" example:"{service_tier: flex}"`
}

// hedgeFile is when to start a second attempt. The gateway uses the response that
// starts first and cancels the other.
type hedgeFile struct {
	at
	// Delay of the second attempt, as a percentile of the first target's recent
	// times to first token. Setting it turns hedging on.
	Percentile float64 `key:"percentile" example:"95"`
	// Maximum share of requests, and of their bytes, that are sent twice. The
	// default is 0.05.
	Share float64 `key:"share" example:"0.02"`
}

// retriesFile is how often a request is tried.
type retriesFile struct {
	at
	// Maximum number of attempts per request, on all targets; 1 turns retries off.
	// Retries on one provider are also limited to a fifth of its requests.
	Attempts int `key:"attempts" example:"2"`
}

// overloadFile is a set of limits on concurrent requests. Requests above a limit
// wait in the queue or are refused at once, with Retry-After.
type overloadFile struct {
	at
	// Open requests of the process. The default, 0, is what its file descriptors
	// allow.
	Requests int `key:"requests" example:"2000"`
	// Open requests of one key. The default, 0, sets no limit.
	PerKey int `key:"per_key" example:"64"`
	// Open requests of one target. The default, 0, sets no limit.
	PerTarget int `key:"per_target" example:"256"`
	// Requests that may wait.
	Queue int `key:"queue" example:"200"`
	// Time that each may wait.
	Wait duration `key:"wait" example:"2s"`
	// Lower a target's limit when its first token slows down, and raise it again.
	// The default is false.
	Adaptive bool `key:"adaptive" example:"true"`
	// Memory use near which requests are refused. The default, 0, is four fifths of
	// the container's limit, if there is one.
	Memory size `key:"memory" example:"2GiB"`
}

// targetFile is a target written as a mapping.
type targetFile struct {
	at
	// The target, as provider/model.
	Target string `key:"target" example:"openai/gpt-6-luna"`
	// Weight among the targets of the model, 1 to 1000. The default is 1.
	Weight int `key:"weight" example:"2"`
}

// fromText lets a target be written as "provider/model" alone.
func (t *targetFile) fromText(text string) { t.Target = text }

// timeoutsFile is the set of time limits of one request.
type timeoutsFile struct {
	at
	// Time to connect to the provider.
	Connect duration `key:"connect" example:"2s"`
	// Time to the first byte of the response.
	FirstByte duration `key:"first_byte" example:"5m"`
	// Time to the first content of a stream. The default, 0, leaves it to idle.
	FirstToken duration `key:"first_token" example:"30s"`
	// Time between two reads of the response.
	Idle duration `key:"idle" example:"1m"`
	// Time of the whole exchange.
	Total duration `key:"total" example:"1h"`
}

// limitsFile is the maximum sizes of what is held in memory.
type limitsFile struct {
	at
	// Body of a request.
	Body size `key:"body" example:"128MiB"`
	// One event of a stream.
	Event size `key:"event" example:"32MiB"`
	// Non-streaming response, also one assembled from a stream.
	Answer size `key:"answer" example:"128MiB"`
	// Conversation store for previous_response_id and item_reference of the Responses
	// API on upstreams that store nothing. In memory only; an entry expires an hour
	// after its last use. With 0 nothing is stored and such requests are refused.
	Conversations size `key:"conversations" example:"256MiB"`
}

// logFile is what is logged and how.
type logFile struct {
	at
	// Lowest level that is logged.
	Level levelName `key:"level" example:"debug"`
	// Format of a line: auto is readable text with colour on a terminal (without it if
	// NO_COLOR is set) and json elsewhere.
	Format formatName `key:"format" example:"text"`
	// Maximum number of lines per second for exchanges that succeeded at the first
	// attempt and were not slow, and ten times that for those that failed because
	// of the client. All others have a line in any case. 0 is no maximum.
	Rate int `key:"rate" example:"1000"`
	// Wait for the first content, or for the response if it is not streamed, from which
	// an exchange is slow. Slow exchanges are always logged and traced. 0 is never.
	Slow duration `key:"slow" example:"10s"`
	// URL of an OTLP/HTTP collector that the log is sent to as well.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
}

// tracesFile is where spans are sent.
type tracesFile struct {
	at
	// URL of an OTLP/HTTP collector. Without it tracing is off.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
	// Share of requests to trace, 0 to 1.
	Sample float64 `key:"sample" example:"0.1"`
}

// telemetryFile is where the telemetry of clients is sent.
type telemetryFile struct {
	at
	// URL of an OTLP/HTTP collector that metrics, logs and traces of clients are
	// relayed to. Without it they are discarded.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
}

// defaultFile is an empty file with every default in it.
func defaultFile() file {
	return file{
		Listen:   "127.0.0.1:8080",
		Admin:    adminFile{Listen: "127.0.0.1:8081"},
		Metrics:  metricsFile{ByKey: "top", Top: 100, Every: duration(time.Minute)},
		Shutdown: shutdownFile{Notice: duration(time.Second), Drain: duration(25 * time.Second)},
		Timeouts: timeoutsFile{
			Connect:   duration(5 * time.Second),
			FirstByte: duration(2 * time.Minute),
			Idle:      duration(2 * time.Minute),
			Total:     duration(30 * time.Minute),
		},
		Data:  "isogloss-data",
		Store: storeFile{Stale: duration(24 * time.Hour)},
		Cache: cacheFile{Size: 256 << 20},
		Usage: usageFile{Sink: sinkFile{Spool: 1 << 30, Kafka: kafkaFile{Topic: "isogloss-usage", Partitions: 12, Replicas: 3},
			NATS: natsFile{Stream: "isogloss-usage", Partitions: 12, Replicas: 3}}},
		Discover: discoverFile{Etcd: etcdFile{Prefix: "/isogloss/"}, EngineMetrics: true},
		Retries:  retriesFile{Attempts: 3},
		Overload: overloadFile{Queue: 1000, Wait: duration(5 * time.Second)},
		Limits:   limitsFile{Body: 64 << 20, Event: 16 << 20, Answer: 64 << 20, Conversations: 64 << 20},
		Fidelity: "default",
		Log:      logFile{Level: "info", Format: "auto", Rate: 100, Slow: duration(30 * time.Second)},
		Traces:   tracesFile{Sample: 1},
	}
}

// The types below are strings with a fixed set of valid values.
type (
	presetName       string
	protocolName     string
	authName         string
	streamName       string
	nvExtName        string
	unknownIDsName   string
	cacheSaltName    string
	thinkTagsName    string
	rerankName       string
	fidelityName     string
	className        string
	quotaName        string
	balanceName      string
	continuationName string
	tlsVersionName   string
	levelName        string
	formatName       string
	byKeyName        string
)

func (presetName) options() []string {
	presets := provider.Catalog()
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.Name
	}
	return names
}

func (protocolName) options() []string { return texts(all.Names()) }
func (authName) options() []string     { return texts(provider.Auths()) }
func (streamName) options() []string {
	return texts([]provider.StreamMode{provider.Always, provider.Mirror})
}
func (nvExtName) options() []string {
	return texts([]provider.Extensions{provider.ForwardExtensions, provider.DropExtensions, provider.RefuseExtensions})
}
func (unknownIDsName) options() []string {
	return texts([]provider.UnknownIDs{provider.RefuseUnknown, provider.ForwardUnknown})
}
func (cacheSaltName) options() []string {
	return texts([]provider.CacheSalt{provider.TenantSalt, provider.SharedSalt, provider.NoSalt})
}
func (thinkTagsName) options() []string {
	return texts([]provider.ThinkTags{provider.ThinkStart, provider.ThinkOpened, provider.NoThinkTags})
}
func (rerankName) options() []string {
	return texts([]provider.Rerank{provider.RerankSame, provider.RerankCohere, provider.RerankJina})
}
func (fidelityName) options() []string { return []string{"strict", "default", "loose"} }
func (className) options() []string    { return []string{"critical", "normal", "sheddable"} }
func (quotaName) options() []string {
	return texts([]provider.Quota{provider.QuotaModel, provider.QuotaProvider})
}
func (balanceName) options() []string {
	return []string{"order", "weight", "least-busy", "fastest", "cache"}
}
func (continuationName) options() []string {
	return texts([]provider.Continuation{provider.NoContinuation, provider.ContinueTrailing, provider.ContinueVLLM, provider.ContinuePrefix})
}
func (tlsVersionName) options() []string { return []string{"1.2", "1.3"} }
func (levelName) options() []string      { return []string{"debug", "info", "warn", "error"} }
func (byKeyName) options() []string      { return []string{"off", "top", "all"} }
func (formatName) options() []string     { return []string{"auto", "json", "text"} }

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
