package protocol

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Translator is a codec that also translates between its protocol and the neutral
// model, in both directions. It knows no other protocol.
type Translator interface {
	Codec

	// DecodeRequest decodes a client's request.
	DecodeRequest(in Incoming) (*llm.Request, *llm.Error)

	// EncodeRequest encodes a request for an upstream. It reports what the protocol
	// cannot express.
	EncodeRequest(req *llm.Request, target Target, report *llm.Report) (Outgoing, *llm.Error)

	// DecodeResponse decodes an upstream's non-streaming response. It returns an
	// error if the body is an error object, even with status 200.
	DecodeResponse(body []byte) (*llm.Response, *llm.Error)

	// EncodeResponse encodes a non-streaming response for the client that sent req.
	EncodeResponse(resp *llm.Response, req *llm.Request, report *llm.Report) []byte

	// NewStreamDecoder returns a decoder for an upstream's stream.
	NewStreamDecoder() StreamDecoder

	// NewStreamEncoder returns an encoder for the stream to the client that sent req.
	NewStreamEncoder(req *llm.Request) StreamEncoder

	// DecodeError decodes an upstream's error response. The body may have any form.
	DecodeError(status int, header http.Header, body []byte) *llm.Error

	// ErrorStatus returns the HTTP status that the protocol uses for an error.
	ErrorStatus(e *llm.Error) int
}

// Incoming is a client's request before decoding.
type Incoming struct {
	Body    []byte
	Path    string // for protocols whose path contains the model
	Stream  bool   // for protocols whose path requests streaming
	Version string // of the dialect, from the path or a header
}

// Target describes the upstream to an encoder.
type Target struct {
	Model   string
	Version string // of the dialect; empty means the default version
	Gates   Gates
}

// Outgoing is an encoded request for an upstream.
type Outgoing struct {
	Body   []byte
	Path   string      // with its query, such as /v1/messages
	Header http.Header // the headers that the protocol requires, except credentials

	// Names maps the name of a tool in Body to the client's tool. It has the tools
	// that were sent with another name, because the protocol does not allow the
	// client's, and the custom tools that were sent as a function with one string
	// argument called "input".
	Names map[string]llm.ToolRef
}

// Gates describes how a model's requests differ from the protocol. The zero value
// describes a model that accepts the whole protocol.
type Gates struct {
	MaxOutput        int64    // the output limit to send if one is required and the client sets none; 0 means the protocol's default
	NoSampling       bool     // rejects temperature, top_p and top_k
	OneSampling      bool     // rejects temperature and top_p together
	NoForcedTool     bool     // rejects a tool choice that forces a tool
	Adaptive         bool     // reasoning is controlled by effort, not by a budget
	Budget           bool     // reasoning is controlled by a budget, not by a level
	LeastReasoning   string   // sent instead of "off" to a model that always reasons: an effort level, or between_tools
	Efforts          []string // the effort levels that it accepts; empty means all
	NoStop           bool     // rejects stop sequences
	NoCustom         bool     // rejects tools with plain text as input
	LongIDs          bool     // accepts ids of calls of any length
	NoPrefill        bool     // rejects an assistant turn at the end, to be continued
	MidSystem        bool     // accepts system text between other turns
	MaxTokensName    string   // the name of the output limit, in a protocol with two names for it
	SystemOnly       bool     // rejects the role developer
	Carrier          bool     // reads Google's signatures in the member extra_content, as Google's OpenAI-compatible API does
	ReasoningHistory string   // the member for the reasoning of earlier turns; empty means that it is not sent
}

// StreamDecoder decodes an upstream's stream into neutral events.
type StreamDecoder interface {
	// Decode decodes one server-sent event and appends the result to to. An error
	// object in the stream becomes a Failure event.
	Decode(name, data []byte, to []llm.Event) []llm.Event

	// Finish is called at the end of the stream. It appends a Failure if the stream
	// has not ended as the protocol requires.
	Finish(to []llm.Event) []llm.Event
}

// StreamEncoder encodes neutral events as a client's stream.
type StreamEncoder interface {
	// Encode encodes one event and appends the result to to.
	Encode(e llm.Event, to []byte) []byte
}
