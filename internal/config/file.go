package config

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// The structs below are the file as it is written. Their comments are the
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
	// key is asked for, and only loopback addresses can be listened on.
	Keys []secret.String `key:"keys" example:"[\"${TEAM_KEY}\"]"`
	// Who serves models, by a name of your own.
	Providers table[providerFile] `key:"providers"`
	// What clients may ask for, by the name that they use. A name that ends in
	// `*` serves every model that begins so.
	Models table[modelFile] `key:"models"`
	// How long a request may take; a provider or a model may have its own.
	Timeouts timeoutsFile `key:"timeouts"`
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
	// What is logged and how.
	Log logFile `key:"log"`
	// Where spans are sent.
	Traces tracesFile `key:"traces"`
}

// adminFile is the listener for metrics and administration.
type adminFile struct {
	at
	// Address of the metrics and the admin API. It has to be loopback.
	Listen string `key:"listen" example:"127.0.0.1:9090"`
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
	// Who serves it. Today the first one is asked; trying the others is being built. Each is `provider/model`, or a mapping with a
	// weight. Where the model's name ends in `*`, one `*` in a target stands for
	// the rest of the name.
	Targets []targetFile `key:"targets" example:"[openai/gpt-5-mini]"`
	// The owner that lists of models show. The default is the first target's
	// provider.
	OwnedBy string `key:"owned_by" example:"search-team"`
	// How long a request for this model may take.
	Timeouts timeoutsFile `key:"timeouts"`
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
		Limits:   limitsFile{Body: 64 << 20, Event: 16 << 20, Answer: 64 << 20},
		Fidelity: "default",
		Log:      logFile{Level: "info", Format: "json"},
		Traces:   tracesFile{Sample: 1},
	}
}

// The types below are strings of which only some are known.
type (
	presetName   string
	protocolName string
	authName     string
	streamName   string
	nvExtName    string
	rerankName   string
	fidelityName string
	levelName    string
	formatName   string
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
func (levelName) options() []string    { return []string{"debug", "info", "warn", "error"} }
func (formatName) options() []string   { return []string{"json", "text"} }

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
