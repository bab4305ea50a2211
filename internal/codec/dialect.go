package codec

import (
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Dialect describes one wire protocol to the gateway. It consists of data and small
// functions, and does not change after it was built. A capability that the protocol lacks
// is nil.
type Dialect struct {
	Name  protocol.Name
	Codec protocol.Translator

	// Routes are the dialect's endpoints on the gateway.
	Routes []Route

	// Locate finds the route of a request whose path is not the Path of a route. It
	// returns an error for a path that belongs to the dialect but has no route. Nil: every
	// route has a Path.
	Locate func(*http.Request) (Location, bool, *llm.Error)

	// Claims reports whether a request to a path that several dialects share comes from
	// a client of this dialect. Nil: it never does.
	Claims func(*http.Request) bool

	// UpstreamPath returns the path of a verbatim request at an upstream of the same
	// dialect. It returns an error if the name of the model cannot be part of a path. Nil:
	// the path that the client used.
	UpstreamPath func(at Location, target protocol.Target, stream bool) (string, *llm.Error)

	// Members are the names of the top-level members that the gateway acts on. A body
	// with a name that differs from one of them only in case is rejected, because some
	// servers ignore case.
	Members []string

	// Read reads what the gateway has to know of a request.
	Read func(at Location, body *wire.Index) (Head, *llm.Error)

	// Other describes requests of another dialect that clients send to the Generate route of
	// this one. Nil: they send none.
	Other *OtherBody

	// Report adds the losses that every request has. Nil: there are none.
	Report func(*llm.Report)

	// SetModel returns the edit that names another model, and SetStream the edit that asks
	// for a stream. Nil: the path has this information, not the body.
	SetModel  func(body *wire.Index, model string) wire.Edit
	SetStream func(body *wire.Index) wire.Edit

	// RequestUsage returns the edit that asks for usage in a stream. The event with the
	// usage is then hidden from the client. Nil: streams report usage in any case.
	RequestUsage func(body *wire.Index) wire.Edit

	// Prompt names the members that decide whether a prompt cache can be used.
	Prompt Prompt

	// LeastOutput is the smallest output limit that upstreams of this dialect take. Requests
	// of other dialects with a smaller one are sent with it. 0: there is none.
	LeastOutput int64

	// Parameters says where requests have the parameters that a configuration may set. It
	// maps the path of a parameter in the neutral model to the paths of members, with dots.
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

	// Maker returns the protocol whose seals the model with an id makes and reads. It is for
	// dialects that serve models of several makers. Nil, or an empty result: the dialect's own.
	Maker func(model string) protocol.Name

	// Unsigned reports whether a request lacks signatures that the model requires, because another
	// vendor's model made the earlier turns. The vendor would reject such a request, so it is
	// translated, which adds the documented stand-in. Nil: never.
	Unsigned func(body *wire.Index, model string) bool

	// Extensions are members by which a vendor extends the dialect.
	Extensions []Extension

	// Continuations are the ways to request the rest of a response that broke off, by their
	// names in the configuration. For a name that is not here, the request ends with the
	// beginning of the response as its last turn, and has no further members.
	Continuations map[string]Continuation

	// Finishes are the finish reasons of a response that may be cached: the model ended the
	// response, or reached its limit. A response that a filter changed has another reason.
	Finishes []string

	// NamesMalformed says that the dialect has a finish reason for malformed output of the model. In
	// a dialect without one, such a response of another dialect becomes an error, because it must not
	// look complete.
	NamesMalformed bool

	// Overflow is the text in an error by which clients recognize that a prompt is too long.
	Overflow string

	// NewArrayEncoder writes a stream as one JSON array. Nil: Location.Array is never set.
	NewArrayEncoder func(*llm.Request) protocol.StreamEncoder

	// NewAssembler completes a non-streaming response that is assembled from a stream of the
	// dialect. Nil: the neutral events have all members.
	NewAssembler func() Assembler

	// EndStream returns the error that ends a failed verbatim stream. The error fits the
	// events that the tap has seen. Nil: Codec.EncodeStreamError returns it.
	EndStream func(protocol.Tap, *llm.Error) []byte

	// RepeatsResponse says that the last event of a stream repeats the whole response, so
	// that the stream encoder holds it in memory.
	RepeatsResponse bool

	Versions *Versions // nil: there is only one
	Headers  Headers

	// CheckState rejects a request that continues a conversation that the vendor stores.
	// Only the vendor itself can serve such a request, and VendorHost is its host. Nil and
	// empty: there are no such requests.
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

	// Fields locates the fields that a report names in requests of the dialect.
	Fields Fields

	// Setup says how the vendor's SDK is configured for the gateway. Zero: the setup of
	// another dialect serves this one, too.
	Setup Setup

	// UpstreamModels reads the model lists of upstreams. Nil: they have none.
	UpstreamModels *ModelSource

	Stored *StoredResponses

	// Agent describes the endpoints of the vendor's own coding agent. Nil: there are none.
	Agent *Agent

	// State describes what the vendor stores under ids. Nil: it stores nothing.
	State *VendorState

	// Labels says where requests name their end user and their tags.
	Labels Labels

	// Envelopes are the forms in which clouds offer the dialect.
	Envelopes []*Envelope

	// StreamsOneChoice says that the vendor streams no more than one choice.
	StreamsOneChoice bool

	// Frames converts the frames of binary streams. Nil: streams are server-sent events.
	Frames *Frames
}

// Versions describes the versions of a dialect.
type Versions struct {
	Known []Version // the first is the default

	// Header names the version in a request; empty: Dialect.Locate reads it from the path.
	Header string

	// SameBodies says that requests and responses are the same in all versions, so that
	// a provider of one version accepts the bytes of another.
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
	// Vendor is the vendor that defines the headers. Response headers pass between dialects
	// of the same vendor.
	Vendor string

	Request  []RequestHeader // that clients send
	Response []string        // that upstreams send

	// RateLimits are the prefixes of the headers in which upstreams send rate limits, beside
	// X-Ratelimit-. SetRateLimits sets the headers for the gateway's own limits. Nil: clients
	// read no such headers.
	RateLimits    []string
	SetRateLimits func(h http.Header, l Limits, now time.Time)

	// RequestID is where clients look for the id of their request; empty: X-Request-Id.
	RequestID string
}

// RequestHeader is a header that a client may send to its upstream.
type RequestHeader struct {
	Name    string
	Default string // sent in a verbatim request that lacks it; empty: nothing
	Beta    bool   // its values change the response

	// Loss is the code of the loss that is reported if the header is dropped because the
	// upstream speaks another dialect. Empty: the header is dropped without a report, and
	// is not forwarded to another version of its own dialect either.
	Loss string
}

// Setup says how an SDK is configured for the gateway.
type Setup struct {
	SDK      string // its name
	Variable string // the environment variable from which it reads the base URL
	Path     string // the base URL's path at the gateway
}

// Route is an endpoint of a dialect. A ListModels route takes GET, every other one POST.
type Route struct {
	Name      string // of the endpoint in metrics, logs, usage records and key scopes
	Operation Operation
	Path      string // matched exactly; empty where Dialect.Locate finds the route
	Verb      string // by which Dialect.Locate finds the route
	Span      string // the gen_ai.operation.name of its spans; empty: none
	Own       bool   // only for requests that Dialect.Claims; from any other client the path is a mistake

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

// Location is the route of a request, with the values in its path and headers.
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
	// MaxOther are the amounts of units that are not counted in tokens, as far as the response can have them.
	MaxOther llm.Amounts

	// Inner are further models that the request names.
	Inner []InnerModel

	// SideEffects says that the request does more than generate a response, such as start a
	// job or change a conversation that the vendor keeps. It is not sent twice.
	SideEffects bool

	// NoStream says that a stream cannot carry the response.
	NoStream bool
}

// OtherBody describes requests of another dialect that clients send to a path of this one. The
// response has the form that belongs to the path.
type OtherBody struct {
	Is      func(body *wire.Index) bool // recognizes them
	Dialect *Dialect                    // reads their bodies and writes the responses of the path
}

// Prompt names the members of a request that prompt caches depend on; empty: none.
type Prompt struct{ System, Tools, Turns string }

// Extension is a member by which a vendor extends the dialect. Each provider's settings
// say whether it is forwarded, dropped or rejected.
type Extension struct {
	Member string
	Check  func(value wire.Raw) *llm.Error // rejects a value that the vendor would reject
	// CacheSalt is the member of its value that engines read beside Dialect.CacheSalt, or instead of it. Empty:
	// there is none.
	CacheSalt string
}

// Continuation holds the members with which a request asks to continue its last turn.
type Continuation struct {
	Turn    llm.Ext      // set on the last turn
	Members []llm.Member // set at the top level of the body
}

// Embedder translates requests for embeddings and their responses.
type Embedder struct {
	// DecodeRequest reads a client's request.
	DecodeRequest func(at Location, body []byte) (*llm.EmbedRequest, *llm.Error)

	// EncodeRequest writes a request for an upstream. It reports what the dialect cannot
	// express.
	EncodeRequest func(*llm.EmbedRequest, protocol.Target, *llm.Report) (protocol.Outgoing, *llm.Error)

	// DecodeResponse reads an upstream's response.
	DecodeResponse func(body []byte) (*llm.Embeddings, *llm.Error)

	// EncodeResponse writes a response for the client that sent the request.
	EncodeResponse func(*llm.Embeddings, *llm.EmbedRequest) ([]byte, *llm.Error)
}

// Counter translates requests for the number of tokens of a prompt.
type Counter struct {
	// DecodeRequest reads a client's request.
	DecodeRequest func(protocol.Incoming) (*llm.Request, *llm.Error)

	// EncodeRequest writes a request for an upstream. It reports what the dialect cannot
	// express.
	EncodeRequest func(*llm.Request, protocol.Target, *llm.Report) (protocol.Outgoing, *llm.Error)

	// DecodeResponse reads an upstream's count.
	DecodeResponse func(body []byte) (int64, *llm.Error)

	// EncodeResponse writes a count for a client.
	EncodeResponse func(tokens int64) []byte
}

// Completer serves a Complete route by a conversation, if no target of the model has the
// route itself.
type Completer struct {
	Codec protocol.Translator // reads the route's requests and writes its responses

	// Report adds the losses that every such request has.
	Report func(*llm.Report)
}

// Reranker translates requests of a Rerank route for providers that have another form of
// such requests.
type Reranker struct {
	// Forms are the names of the forms in the configuration. A provider with any other
	// form, or none, gets the client's request unchanged.
	Forms []string

	// Encode writes a client's request in a form.
	Encode func(body []byte, form string, target protocol.Target, report *llm.Report) (Reranking, *llm.Error)
}

// Reranking is a translated request, with the function that translates its response.
type Reranking struct {
	protocol.Outgoing

	// BadKey is a further status with which the upstream rejects the credential; 0: none.
	BadKey int

	// EncodeResponse translates the upstream's response. id is used if the upstream sent
	// no id.
	EncodeResponse func(body []byte, id string) ([]byte, protocol.Summary, *llm.Error)
}
