package protocol

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Translator is a codec that can also translate between its wire form and the
// neutral model, both ways. A translator knows its own protocol and no other.
type Translator interface {
	Codec

	// DecodeRequest reads a client's request.
	DecodeRequest(in Incoming) (*llm.Request, *llm.Error)

	// EncodeRequest writes a request for an upstream. What it cannot express
	// it puts into the report.
	EncodeRequest(req *llm.Request, target Target, report *llm.Report) (Outgoing, *llm.Error)

	// DecodeResponse reads an upstream's whole answer. An error object with a
	// good status is an error too.
	DecodeResponse(body []byte) (*llm.Response, *llm.Error)

	// EncodeResponse writes a whole answer for the client that asked.
	EncodeResponse(resp *llm.Response, ask *llm.Request, report *llm.Report) []byte

	// NewStreamDecoder reads an upstream's stream.
	NewStreamDecoder() StreamDecoder

	// NewStreamEncoder writes a stream for the client that asked.
	NewStreamEncoder(ask *llm.Request) StreamEncoder

	// DecodeError reads an upstream's error answer, whatever its shape.
	DecodeError(status int, header http.Header, body []byte) *llm.Error

	// ErrorStatus is the HTTP status that the protocol has for an error.
	ErrorStatus(e *llm.Error) int
}

// Incoming is a client's request as it came.
type Incoming struct {
	Body    []byte
	Path    string // for protocols that have the model in it
	Stream  bool   // for protocols that say so in the path
	Version string // of the dialect, from wherever it carries it
}

// Target is what an encoder has to know of the upstream.
type Target struct {
	Model   string
	Version string // of the dialect; empty means the protocol's own default
	Gates   Gates
}

// Outgoing is a request as an upstream gets it.
type Outgoing struct {
	Body   []byte
	Path   string      // after the origin, with its query: /v1/messages
	Header http.Header // what the protocol wants beside the credential

	// Names leads from the names that tools were sent under to the tools
	// that the client declared, where the two differ in name or in kind: a
	// name out of the protocol's alphabet, a custom tool sent as a function
	// with one string argument called "input".
	Names map[string]llm.ToolRef
}

// Gates is what a model refuses or wants otherwise. The zero value refuses
// nothing.
type Gates struct {
	MaxOutput        int64    // what is sent where a limit is required and none was given; 0: the protocol's default
	NoSampling       bool     // temperature, top_p and top_k are refused
	NoForcedTool     bool     // a tool cannot be forced
	Adaptive         bool     // thinking is set by effort, not by a budget
	Budget           bool     // thinking is set by a budget, not by a level
	Efforts          []string // the levels of effort that are known; empty: all
	NoStop           bool     // stop sequences are refused
	NoCustom         bool     // tools that take free text are not known
	MidSystem        bool     // system text may stand in mid-conversation
	MaxTokensName    string   // what the limit is called, where it has two names
	SystemOnly       bool     // the role developer is not known
	ReasoningHistory string   // what an earlier answer's reasoning is sent as: a member's name, or "" for not at all
}

// StreamDecoder turns the events of an upstream's stream into neutral ones. It
// appends to a slice that the caller may use again.
type StreamDecoder interface {
	// Decode reads one server-sent event. An error that came inside the
	// stream is a Failure event, not an error.
	Decode(name, data []byte, to []llm.Event) []llm.Event

	// Finish is called at the end of the stream. Without proof of the end
	// it gives a Failure.
	Finish(to []llm.Event) []llm.Event
}

// StreamEncoder writes neutral events as a client's stream. It appends to bytes
// that the caller may use again.
type StreamEncoder interface {
	Encode(e llm.Event, to []byte) []byte
}
