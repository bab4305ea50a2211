package config

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// The structs below and those of file_stores.go are the file as it is written. Their comments are the
// reference page and the JSON Schema: run `go test ./internal/config -update`
// after changing one. The example tag is shown there.

// file is the whole configuration. Every value may hold `${VAR}`, which is
// replaced by that environment variable, or `${VAR:-text}`, which is `text` where
// the variable is unset or empty. `$$` is a dollar sign.
type file struct {
	at
	// Address that clients call, as host:port. An address that is not loopback
	// needs keys.
	Listen string `key:"listen" example:"0.0.0.0:8080"`
	// The second listener.
	Admin adminFile `key:"admin"`
	// Keys that clients may use, each of at least 16 characters. Without any, no
	// key is asked for, and only loopback addresses can be listened on. Each is the
	// key alone, or a mapping.
	Keys []keyFile `key:"keys" example:"[\"${TEAM_KEY}\"]"`
	// Who serves models, by a name of your own.
	Providers table[providerFile] `key:"providers"`
	// What clients may ask for, by the name that they use. A name that ends in
	// `*` serves every model that begins so.
	Models table[modelFile] `key:"models"`
	// How long a request may take; a provider or a model may have its own.
	Timeouts timeoutsFile `key:"timeouts"`
	// What is done for a request that a provider has failed.
	Retries retriesFile `key:"retries"`
	// How much is taken on at once.
	Overload overloadFile `key:"overload"`
	// What is held in memory at most.
	Limits limitsFile `key:"limits"`
	// Time after which an idle stream gets a comment line, so that proxies on the
	// way do not cut it. The default, 0, is off.
	KeepAlive duration `key:"keep_alive" example:"15s"`
	// What is done where a request cannot be said in the upstream's protocol as the
	// client has said it. With default, what would change its meaning is refused
	// and the rest is approximated or left out; with strict, anything of the kind
	// is refused; with loose, what can be left out is left out. What was done is in
	// the header Isogloss-Fidelity. A client chooses for one request with the
	// header Isogloss-Fidelity-Mode.
	Fidelity fidelityName `key:"fidelity" example:"strict"`
	// What models refuse or want otherwise, where requests are translated. The
	// first row that matches counts, and these come before those that are built in.
	Gates []gateFile `key:"gates"`
	// This gateway's name among several, which has to be its own. The default is the
	// host's name.
	Node string `key:"node" example:"gw-1"`
	// Folder for what outlives the process: the SQLite file, usage on its way to the
	// store, what was last known of keys and workers. It is made where it is needed.
	// Processes of the same node share it, nodes do not.
	Data string `key:"data" example:"/var/lib/isogloss"`
	// Where clients' keys and the ledger are kept. With it every request needs a
	// key; without it nothing is written to disk.
	Store storeFile `key:"store"`
	// Where several gateways keep the limits of keys. The default is in memory,
	// which holds for one gateway alone.
	Redis redisFile `key:"redis"`
	// What tokens cost, beyond the prices that are built in.
	Prices pricesFile `key:"prices"`
	// Answers that are given again to the same request. Off by default.
	Cache cacheFile `key:"cache"`
	// Where workers are found that come and go. Their models are served by the names
	// that they register; in models, the target `discovered/NAME` stands for all
	// workers of a name.
	Discover discoverFile `key:"discover"`
	// What is logged and how.
	Log logFile `key:"log"`
	// Where spans are sent.
	Traces tracesFile `key:"traces"`
}

// keyFile is a client's key that is written as a mapping.
type keyFile struct {
	at
	// The key.
	Key secret.String `key:"key" example:"${TEAM_KEY}"`
	// How much its requests matter when there are more than can be served. A
	// request may say less of itself with the header Isogloss-Criticality, not
	// more. The default is normal.
	Criticality className `key:"criticality" example:"critical"`
	// How many requests it may have open at once. The default is overload.per_key.
	Concurrency int `key:"concurrency" example:"8"`
}

// fromText lets a key be written alone.
func (k *keyFile) fromText(text string) { k.Key = secret.String(text) }

// adminFile is the listener for metrics and administration.
type adminFile struct {
	at
	// Address of the metrics and the admin API. One that is not loopback needs tls
	// and a store, and then everything on it needs an operator's key.
	Listen string `key:"listen" example:"127.0.0.1:9090"`
	// The listener's certificate.
	TLS tlsFile `key:"tls"`
}

// tlsFile is a certificate with its key.
type tlsFile struct {
	at
	// File with the certificate and those that lead to its root, as PEM.
	Cert string `key:"cert" example:"/etc/isogloss/admin.crt"`
	// File with the private key, as PEM.
	Key string `key:"key" example:"/etc/isogloss/admin.key"`
}

// providerFile is one upstream. Either `preset` or `protocol` with `base_url` is
// needed; what is written here wins over the preset.
type providerFile struct {
	at
	// A vendor or engine that is known: its protocol, address and habits.
	Preset presetName `key:"preset" example:"openai"`
	// The protocol that the upstream speaks. The default is the preset's.
	Protocol protocolName `key:"protocol" example:"openai-chat"`
	// What the vendor's own SDK takes: with `/v1` for the two protocols of OpenAI
	// (a bare origin gets it), the bare origin for anthropic and gemini. A query is
	// kept. The default is the preset's.
	BaseURL string `key:"base_url" example:"http://127.0.0.1:8000/v1"`
	// The credential. It may be left out for auth none, for engines, and for
	// addresses in a private network.
	APIKey secret.String `key:"api_key" example:"${OPENAI_API_KEY}"`
	// The header that the credential travels in. The default is the preset's or
	// the protocol's own.
	Auth authName `key:"auth" example:"bearer"`
	// The version of the anthropic or gemini protocol to ask for. The default is
	// the protocol's own.
	APIVersion string `key:"api_version" example:"2023-06-01"`
	// Further versions of the anthropic or gemini protocol that the upstream takes;
	// a client that asks for one of them gets it. By default it is every known
	// version, or only api_version where that is written.
	AcceptedVersions []string `key:"accepted_versions" example:"[\"2023-06-01\"]"`
	// Send requests on unread that ask for a version of the anthropic protocol
	// which the gateway does not know. The default is false: they are refused.
	ForwardUnknownVersion bool `key:"forward_unknown_version" example:"true"`
	// Headers that are sent with every request.
	Headers map[string]string `key:"headers" example:"{X-Team: search}"`
	// Whether the upstream is always asked to stream or only where the client
	// did. The default is always for engines and mirror for all else.
	UpstreamStream streamName `key:"upstream_stream" example:"always"`
	// Ask for token counts on streams where the client did not. The default is
	// false.
	IncludeUsage bool `key:"include_usage" example:"true"`
	// What is done with a request's nvext member: sent on, taken out and
	// reported, or answered with an error. The default is refuse, and forward for
	// the preset dynamo.
	NvExt nvExtName `key:"nvext" example:"forward"`
	// The form in which this provider takes `/v1/rerank`: as the client wrote it,
	// or Cohere's or Jina's own, which requests and answers are translated to and
	// from. The default is same. Cohere's address for it is
	// `https://api.cohere.com`, Jina's `https://api.jina.ai/v1`.
	Rerank rerankName `key:"rerank" example:"cohere"`
	// Other requests that are sent on to this provider, each exactly, as a method
	// and a path.
	Paths []string `key:"paths" example:"[\"POST /v1/audio/speech\"]"`
	// How long a request to this provider may take.
	Timeouts timeoutsFile `key:"timeouts"`
	// How many requests each of its models may have open at once. The default is
	// overload.per_target.
	Concurrency int `key:"concurrency" example:"64"`
	// What a rate limit of this provider counts for: the model that was asked, or
	// all models of the credential. The default is model.
	Quota quotaName `key:"quota" example:"provider"`
	// Asking whether it is well, where a model has somebody else to turn to.
	Health healthFile `key:"health"`
	// How an answer that broke off is taken up again, for models with continue:
	// with the beginning of the answer as a last message of the assistant
	// (trailing), with that and vLLM's continue_final_message (vllm), or with that
	// and a prefix mark (prefix). The default is the preset's, or none.
	Continuation continuationName `key:"continuation" example:"vllm"`
}

// healthFile is a check that is made now and then.
type healthFile struct {
	at
	// The path that is asked with GET, on the provider's origin; a status of 2xx is
	// well. The default is /health for engines and none for all else.
	Path string `key:"path" example:"/health"`
	// How often. The default is 5s.
	Every duration `key:"every" example:"2s"`
}

// gateFile is what some models refuse or want otherwise.
type gateFile struct {
	at
	// The models, by the upstream's own names for them. `*` stands for anything;
	// letters may be of either case, and dots are dashes.
	Match string `key:"match" example:"claude-x*"`
	// The protocol that they are called over.
	Protocol protocolName `key:"protocol" example:"anthropic"`
	// What is sent as the longest answer where the protocol wants a number and the
	// client gave none. The default is the protocol's own.
	MaxOutput int `key:"max_output" example:"64000"`
	// Leave temperature, top_p and top_k out. The default is false.
	NoSampling bool `key:"no_sampling" example:"true"`
	// Do not force a tool to be called. The default is false.
	NoForcedTool bool `key:"no_forced_tool" example:"true"`
	// Leave stop sequences out. The default is false.
	NoStop bool `key:"no_stop" example:"true"`
	// Reasoning is set by effort. The default is false.
	Adaptive bool `key:"adaptive" example:"true"`
	// Reasoning is set by a number of tokens. The default is false.
	Budget bool `key:"budget" example:"true"`
	// The levels of effort that are known. The default is all.
	Efforts []string `key:"efforts" example:"[low, high]"`
	// System text may stand in mid-conversation. The default is false.
	MidSystem bool `key:"mid_system" example:"true"`
	// The role developer is not known. The default is false.
	SystemOnly bool `key:"system_only" example:"true"`
	// The member that limits the answer, where the protocol has two names for it.
	MaxTokensName string `key:"max_tokens_name" example:"max_tokens"`
	// The member that an earlier answer's reasoning is sent back as. By default it
	// is not sent back.
	ReasoningHistory string `key:"reasoning_history" example:"reasoning_content"`
}

// modelFile is one name that clients use.
type modelFile struct {
	at
	// Who serves it. Each is `provider/model`, or a mapping with a weight. Where one
	// fails before it has said anything, the next is asked. Where the model's name
	// ends in `*`, one `*` in a target stands for the rest of the name.
	Targets []targetFile `key:"targets" example:"[openai/gpt-5-mini]"`
	// The owner that lists of models show. The default is the first target's
	// provider.
	OwnedBy string `key:"owned_by" example:"search-team"`
	// Who is asked first: the targets in their order; by weight, at random; the less
	// busy of two; the one that answers sooner; or the one that is likely to have the
	// conversation in its prompt cache. The default is order, and weight where a
	// target has a weight.
	Balance balanceName `key:"balance" example:"least-busy"`
	// Asking a second target where the first is slow to begin. Off by default.
	Hedge hedgeFile `key:"hedge"`
	// Whether a stream that breaks off is taken up by asking for the rest of it, where
	// a target has a continuation. The default is false: it ends with an error.
	Continue bool `key:"continue" example:"true"`
	// How long a request for this model may take.
	Timeouts timeoutsFile `key:"timeouts"`
}

// hedgeFile is when a second target is asked for the same answer. The first to say
// something is taken, the other is given up.
type hedgeFile struct {
	at
	// After how long: this percentile of the time that the first target lately took
	// to its first token. It turns hedging on.
	Percentile float64 `key:"percentile" example:"95"`
	// The share of requests, and of what they send, that may be asked twice. The
	// default is 0.05.
	Share float64 `key:"share" example:"0.02"`
}

// retriesFile bounds what is done for one request.
type retriesFile struct {
	at
	// How often a request is sent in all, to whomever; 1 never repeats one. Whatever
	// it is, no more than a fifth of a provider's requests are repeated on it.
	Attempts int `key:"attempts" example:"2"`
}

// overloadFile bounds what is served at once. What is above waits for its turn or
// is refused at once, with a time after which to come again.
type overloadFile struct {
	at
	// Open requests of the whole process. The default, 0, is what its file
	// descriptors allow.
	Requests int `key:"requests" example:"2000"`
	// Open requests of one key. The default, 0, sets no limit.
	PerKey int `key:"per_key" example:"64"`
	// Open requests of one target. The default, 0, sets no limit.
	PerTarget int `key:"per_target" example:"256"`
	// How many requests may wait.
	Queue int `key:"queue" example:"200"`
	// How long each may wait.
	Wait duration `key:"wait" example:"2s"`
	// Lower a target's limit when its first token slows down, and raise it again.
	// The default is false.
	Adaptive bool `key:"adaptive" example:"true"`
	// Memory near which requests are refused. The default, 0, is four fifths of the
	// container's limit, where there is one.
	Memory size `key:"memory" example:"2GiB"`
}

// targetFile is a target that is written as a mapping.
type targetFile struct {
	at
	// The target, as provider/model.
	Target string `key:"target" example:"openai/gpt-5-mini"`
	// Its share among the targets of this model, 1 to 1000. The default is 1.
	Weight int `key:"weight" example:"2"`
}

// fromText lets a target be written as "provider/model" alone.
func (t *targetFile) fromText(text string) { t.Target = text }

// timeoutsFile bounds one request.
type timeoutsFile struct {
	at
	// Until the connection to the provider stands.
	Connect duration `key:"connect" example:"2s"`
	// Until the first byte of the answer.
	FirstByte duration `key:"first_byte" example:"5m"`
	// Until a stream has said something. The default, 0, leaves it to idle.
	FirstToken duration `key:"first_token" example:"30s"`
	// Between two reads of the answer.
	Idle duration `key:"idle" example:"1m"`
	// The whole exchange.
	Total duration `key:"total" example:"1h"`
}

// limitsFile bounds what is held in memory. A size is a number of bytes, or a
// number with KiB, MiB, GiB, KB, MB or GB.
type limitsFile struct {
	at
	// The body of a request.
	Body size `key:"body" example:"128MiB"`
	// One event of a stream.
	Event size `key:"event" example:"32MiB"`
	// An answer that has to be collected before it can be sent.
	Answer size `key:"answer" example:"128MiB"`
	// What is kept of conversations for clients of the Responses API, which may name
	// what was said before (previous_response_id, item_reference) where the upstream
	// keeps nothing. In memory only, encrypted, until it was not used for an hour. 0
	// keeps nothing, and such requests are refused.
	Conversations size `key:"conversations" example:"256MiB"`
}

// logFile is what is logged and how.
type logFile struct {
	at
	// The least level that is logged.
	Level levelName `key:"level" example:"debug"`
	// How a line is written.
	Format formatName `key:"format" example:"text"`
}

// tracesFile is where spans are sent.
type tracesFile struct {
	at
	// URL of an OTLP/HTTP collector. Without it nothing is sent.
	Endpoint string `key:"endpoint" example:"http://127.0.0.1:4318"`
	// Share of requests that are traced, 0 to 1.
	Sample float64 `key:"sample" example:"0.1"`
}

// defaultFile is an empty file with every default in it.
func defaultFile() file {
	return file{
		Listen: "127.0.0.1:8080",
		Admin:  adminFile{Listen: "127.0.0.1:8081"},
		Timeouts: timeoutsFile{
			Connect:   duration(5 * time.Second),
			FirstByte: duration(2 * time.Minute),
			Idle:      duration(2 * time.Minute),
			Total:     duration(30 * time.Minute),
		},
		Data:     "isogloss-data",
		Store:    storeFile{Stale: duration(24 * time.Hour)},
		Cache:    cacheFile{Size: 256 << 20},
		Discover: discoverFile{Etcd: etcdFile{Prefix: "/isogloss/"}},
		Retries:  retriesFile{Attempts: 3},
		Overload: overloadFile{Queue: 1000, Wait: duration(5 * time.Second)},
		Limits:   limitsFile{Body: 64 << 20, Event: 16 << 20, Answer: 64 << 20, Conversations: 64 << 20},
		Fidelity: "default",
		Log:      logFile{Level: "info", Format: "json"},
		Traces:   tracesFile{Sample: 1},
	}
}

// The types below are strings of which only some are known.
type (
	presetName       string
	protocolName     string
	authName         string
	streamName       string
	nvExtName        string
	rerankName       string
	fidelityName     string
	className        string
	quotaName        string
	balanceName      string
	continuationName string
	levelName        string
	formatName       string
)

func (presetName) options() []string {
	presets := provider.Catalog()
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.Name
	}
	return names
}

func (protocolName) options() []string { return texts(protocol.Names()) }
func (authName) options() []string     { return texts(provider.Auths()) }
func (streamName) options() []string {
	return texts([]provider.StreamMode{provider.Always, provider.Mirror})
}
func (nvExtName) options() []string {
	return texts([]provider.NvExt{provider.NvExtForward, provider.NvExtDrop, provider.NvExtRefuse})
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
func (levelName) options() []string  { return []string{"debug", "info", "warn", "error"} }
func (formatName) options() []string { return []string{"json", "text"} }

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
