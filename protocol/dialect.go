package protocol

import (
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Dialect describes one wire protocol to the gateway. It is data and small functions,
// and does not change after it was built. A capability that the protocol lacks is nil.
type Dialect struct {
	Name  Name
	Codec Translator

	// Routes are the dialect's endpoints on the gateway.
	Routes []Route

	// Locate finds the route of a request whose path is not the Path of a route. It
	// returns an error for a path that belongs to the dialect and leads nowhere. Nil:
	// every route has a Path.
	Locate func(*http.Request) (Location, bool, *llm.Error)

	// Claims reports whether a request to a path that several dialects share comes from
	// a client of this dialect. Nil: it never does.
	Claims func(*http.Request) bool

	// UpstreamPath returns the path of a verbatim request: where a client's request is
	// sent at an upstream of the same dialect. A model that no path can name is an error. Nil: the path that the
	// client used.
	UpstreamPath func(at Location, target Target, stream bool) (string, *llm.Error)

	// Members are the names of the top-level members that the gateway acts on. A body
	// with a name that differs from one of them only in case is rejected, because some
	// servers ignore case.
	Members []string

	// Read reads what the gateway has to know of a request.
	Read func(at Location, body *wire.Index) (Head, *llm.Error)

	// Other describes requests of another dialect that clients send to the Generate route of
	// this one. Nil: they send none.
	Other *OtherBody

	// Report notes what every request loses. Nil: nothing.
	Report func(*llm.Report)

	// SetModel and SetStream return the edits that name another model, and that ask for a
	// stream. Nil: the path says it.
	SetModel  func(body *wire.Index, model string) wire.Edit
	SetStream func(body *wire.Index) wire.Edit

	// RequestUsage returns the edit that asks for usage in a stream. The event that brings
	// it is then hidden from the client. Nil: streams report usage in any case.
	RequestUsage func(body *wire.Index) wire.Edit

	// Prompt names the members that prompt caches are made of.
	Prompt Prompt

	// Parameters are the places of the parameters that a configuration may set, by their
	// paths in the neutral model: the paths of members, with dots.
	Parameters map[string][]string

	// ParameterContext are further top-level members that decide which parameters a model
	// accepts. Of the turns only the last two matter.
	ParameterContext []string

	// OtherNames returns other names that upstreams accept for a member, at any level. Nil:
	// there are none.
	OtherNames func(name string) []string

	// CacheSalt is the member with which engines separate prefix caches. Empty: there is
	// none.
	CacheSalt string

	// SealMarks are the quoted names of members that hold sealed reasoning, or refer to it.
	SealMarks []string

	// Maker returns the protocol whose seals a model makes and reads, by its id, if the
	// dialect serves models of several makers. Empty, or nil: the dialect's own.
	Maker func(model string) Name

	// Unsigned reports whether the vendor rejects a request because the model requires signatures that
	// another vendor's model has not made. Such a request is translated, which adds the documented
	// stand-in. nil: never.
	Unsigned func(body *wire.Index, model string) bool

	// Extensions are members by which a vendor extends the dialect.
	Extensions []Extension

	// Continuations are the ways to have the rest of a response generated, by their names
	// in the configuration. A way that is not here ends the conversation with the
	// response's beginning and does nothing else.
	Continuations map[string]Continuation

	// Finishes are the finish reasons of a response that may be cached: the model has said
	// all, or as much as it was allowed to. A response that a filter changed has another.
	Finishes []string

	// NamesMalformed says that a response can say that the model's output is malformed. Without it
	// such a response of another dialect is an error, because it must not look complete.
	NamesMalformed bool

	// Overflow is the text by which clients know that a prompt is too long.
	Overflow string

	// NewArrayEncoder writes a stream as one JSON array. Nil: Location.Array is never set.
	NewArrayEncoder func(*llm.Request) StreamEncoder

	// NewAssembler completes a non-streaming response that is assembled from a stream of the
	// dialect. Nil: the neutral events have all members.
	NewAssembler func() Assembler

	// EndStream ends a verbatim stream that failed with an error that fits what the tap has
	// seen. Nil: Codec.EncodeStreamError does.
	EndStream func(Tap, *llm.Error) []byte

	// RepeatsResponse says that the last event of a stream repeats the whole response, so
	// that the stream encoder holds it in memory.
	RepeatsResponse bool

	Versions *Versions // nil: there is only one
	Headers  Headers

	// VendorHost is the host of the dialect's own vendor, which alone can serve a request
	// that CheckState rejects. CheckState rejects a request that continues a conversation
	// which the vendor keeps. Empty and nil: there are no such requests.
	VendorHost string
	CheckState func(body *wire.Index) *llm.Error

	// OptionalCallIDs says that clients may send tool calls back without their ids.
	OptionalCallIDs bool

	// Ping is the event that keeps an idle stream alive, once it has begun. Nil: a comment line
	// does.
	Ping []byte

	// NoComments says that clients cannot read comment lines in a stream.
	NoComments bool

	Embed *Embedder
	Count *Counter

	// Fields says where requests have the fields that a report names.
	Fields Fields

	// Setup is how the vendor's SDK is pointed at the gateway. Zero: another dialect's does it.
	Setup Setup

	// UpstreamModels reads the model lists of upstreams. Nil: they have none.
	UpstreamModels *ModelSource

	Stored *StoredResponses

	// Agent has the endpoints of the vendor's own coding agent. Nil: none.
	Agent *Agent

	// State is what the vendor keeps. Nil: nothing.
	State *VendorState

	// Labels says where requests name their end user and their tags.
	Labels Labels

	// Envelopes are the forms in which clouds offer the dialect.
	Envelopes []*Envelope

	// StreamsOneChoice says that the vendor streams no more than one choice.
	StreamsOneChoice bool

	// Frames carry the events of streams. Nil: they are server-sent events.
	Frames *Frames
}

// Versions describes the versions of a dialect.
type Versions struct {
	Known []Version // the first is the default

	// Header names the version in a request; empty: Dialect.Locate reads it from the path.
	Header string

	// SameBodies says that requests and responses are the same in all versions, so that
	// a provider of one takes the bytes of another.
	SameBodies bool

	// Check rejects a version that is not known.
	Check func(name string) *llm.Error
}

// Version is one version of a dialect.
type Version struct {
	Name       string
	NoSampling bool // it rejects temperature, top_p and top_k
}

// Headers says which headers pass between a client and an upstream of the same dialect.
// Names are in their canonical form.
type Headers struct {
	// Vendor is whose headers they are: response headers pass between dialects of one
	// vendor.
	Vendor string

	Request  []RequestHeader // that clients send
	Response []string        // that upstreams send

	// RateLimits are the prefixes of the headers in which upstreams send rate limits, beside
	// X-Ratelimit-. SetRateLimits sets those for limits of the gateway's own; nil: clients
	// read none.
	RateLimits    []string
	SetRateLimits func(h http.Header, l Limits, now time.Time)

	// RequestID is where clients look for the id of their request; empty: X-Request-Id.
	RequestID string
}

// RequestHeader is a header that a client may send to its upstream.
type RequestHeader struct {
	Name    string
	Default string // sent in a verbatim request that lacks it; empty: nothing
	Beta    bool   // its values change what is answered

	// Loss is the code that is reported where the header is dropped because the upstream
	// speaks another dialect; empty: it is dropped without a word, and does not pass to
	// another version of its own dialect either.
	Loss string
}

// Setup is how an SDK is pointed at the gateway.
type Setup struct {
	SDK      string // its name
	Variable string // the environment variable from which it reads the base URL
	Path     string // of the base URL below the gateway's origin
}

// Route is an endpoint of a dialect. A ListModels route takes GET, every other one POST.
type Route struct {
	Name      string // of the endpoint in metrics, logs, usage records and key scopes
	Operation Operation
	Path      string // matched exactly; empty where Dialect.Locate finds the route
	Verb      string // what Dialect.Locate knows the route by
	Span      string // the gen_ai.operation.name of its spans; empty: none
	Own       bool   // only for requests that Dialect.Claims: a path that is a mistake of every other client

	Cacheable *CacheRule // nil: responses are not cached

	Models   *ModelList // of a ListModels route
	Complete *Completer // of a Complete route
	Rerank   *Reranker  // of a Rerank route
}

// Operation is what a route does.
type Operation int

// The operations.
const (
	Forward     Operation = iota // relayed to upstreams of the same dialect, and not translated
	Generate                     // generates a response to a conversation; every dialect has it
	Complete                     // continues a text
	Embed                        // turns texts into vectors
	Rerank                       // orders documents by their relevance
	CountTokens                  // counts the tokens of a prompt
	ListModels                   // lists the models of the gateway, and single ones below its path
	Compact                      // shortens a conversation; relayed to upstreams of the same dialect, and not translated
)

// Location is the route that a request is for, with what its path and its headers say.
type Location struct {
	*Route
	URLPath string // escaped, as the client sent it
	Version string // of the dialect; empty where the client does not name one
	Model   string // empty where the body names it
	Stream  bool   // the path asks for a stream
	Array   bool   // a stream is wanted as one JSON array in place of server-sent events

	Envelope *Envelope // in which the client sent the request; nil: none
}

// Head is what the gateway reads of a request before it chooses a target.
type Head struct {
	Model   string
	Stream  bool
	Usage   bool // the client asks for usage in its stream
	Choices int  // how many finish reasons prove the end of the response; less than 2: one

	MaxOutput int64 // the limit for each choice, in tokens; 0: none
	Generated int64 // choices that are generated and billed; less than 2: one

	// Inner are further models that the request names.
	Inner []InnerModel

	// SideEffects says that the request does more than generate a response, such as start a
	// job or change a conversation that the vendor keeps. It is not sent twice.
	SideEffects bool

	// NoStream says that a stream cannot carry the response.
	NoStream bool
}

// OtherBody describes requests of another dialect that clients send to a path of this one. The
// response has the form that the path promises.
type OtherBody struct {
	Is      func(body *wire.Index) bool // recognizes them
	Dialect *Dialect                    // reads their bodies and writes the responses of the path
}

// Prompt names the members of a request that prompt caches are made of; empty: none.
type Prompt struct{ System, Tools, Turns string }

// Extension is a member by which a vendor extends the dialect. Each provider's settings
// say whether it is forwarded, dropped or rejected.
type Extension struct {
	Member string
	Check  func(value wire.Raw) *llm.Error // rejects a value that the vendor would not take
	// CacheSalt is the member of its value that engines read beside Dialect.CacheSalt, or instead of it. Empty:
	// there is none.
	CacheSalt string
}

// Continuation is how a request says that its last turn is to be continued.
type Continuation struct {
	Turn    llm.Ext      // on that turn
	Members []llm.Member // set at the top level of the body
}

// Embedder translates requests for embeddings and their responses.
type Embedder struct {
	// DecodeRequest reads a client's request.
	DecodeRequest func(at Location, body []byte) (*llm.EmbedRequest, *llm.Error)

	// EncodeRequest writes a request for an upstream. What it cannot express it puts
	// into the report.
	EncodeRequest func(*llm.EmbedRequest, Target, *llm.Report) (Outgoing, *llm.Error)

	// DecodeResponse reads an upstream's response.
	DecodeResponse func(body []byte) (*llm.Embeddings, *llm.Error)

	// EncodeResponse writes a response for the client that sent the request.
	EncodeResponse func(*llm.Embeddings, *llm.EmbedRequest) ([]byte, *llm.Error)
}

// Counter translates requests for the number of tokens of a prompt.
type Counter struct {
	// DecodeRequest reads a client's request.
	DecodeRequest func(Incoming) (*llm.Request, *llm.Error)

	// EncodeRequest writes a request for an upstream. What it cannot express it puts
	// into the report.
	EncodeRequest func(*llm.Request, Target, *llm.Report) (Outgoing, *llm.Error)

	// DecodeResponse reads an upstream's count.
	DecodeResponse func(body []byte) (int64, *llm.Error)

	// EncodeResponse writes a count for a client.
	EncodeResponse func(tokens int64) []byte
}

// Completer serves a Complete route as a conversation, where no target of a model has
// the route itself.
type Completer struct {
	Codec Translator // reads the route's requests and writes its responses

	// Report notes what every request loses on that way.
	Report func(*llm.Report)
}

// Reranker translates a Rerank route for providers that have a form of their own for it.
type Reranker struct {
	// Forms are the names of the forms, as the configuration has them. A provider with
	// any other name, or none, takes the route's requests as they are.
	Forms []string

	// Encode writes a client's request in a form.
	Encode func(body []byte, form string, target Target, report *llm.Report) (Reranking, *llm.Error)
}

// Reranking is a translated request and the way back.
type Reranking struct {
	Outgoing

	// BadKey is a further status with which the upstream rejects the credential; 0: none.
	BadKey int

	// EncodeResponse translates the upstream's response. The id stands in for one that
	// the upstream did not send.
	EncodeResponse func(body []byte, id string) ([]byte, Summary, *llm.Error)
}
