package testrig

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
)

// The usage that every reply reports.
const (
	InputTokens  = 9
	OutputTokens = 20
)

// Words returns the words of a target's reply. They begin with the target's role, so that
// a client's text shows which target responded and whether two replies were mixed.
func Words(role string) []string {
	words := strings.SplitAfter(role+" says that the river rises in the hills and reaches the sea after nine days.", " ")
	return append(words, " Grüße 🌊", " \"quoted\"\n", " finish_reason: stop [DONE]") // text that looks like wire format
}

// Text returns the complete text of a target's reply.
func Text(role string) string { return strings.Join(Words(role), "") }

// Reply is a response as the vendor of a dialect sends it: reasoning, text, tool calls.
// The writers of conform write it.
type Reply struct {
	Dialect Dialect
	Model   string     // "" means "up"
	Thought []string   // reasoning, one event for each element in a stream
	Words   []string   // the text, likewise
	Calls   []ToolCall // their arguments likewise
	Usage   bool       // a Chat stream reports usage

	// Tokens. In includes Cached, and Out includes Reasoning; all 0 means InputTokens and
	// OutputTokens.
	In, Cached, Out, Reasoning int
}

// ToolCall is a tool call of a reply.
type ToolCall struct {
	ID, Name  string
	Args      []string // JSON in pieces, or the text that a custom tool takes
	Namespace string   // of the tool
	Custom    bool     // a custom tool, which only OpenAI's dialects have
	Search    bool     // a search for tools that the client runs, which only Responses has; a function elsewhere
}

// FlatName returns the tool's name for dialects without namespaces.
func (c ToolCall) FlatName() string { return FlatName(c.Namespace, c.Name) }

// FlatName joins a namespace and the name of a tool.
func FlatName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

// Arguments returns the arguments in one piece.
func (c ToolCall) Arguments() string { return strings.Join(c.Args, "") }

// piece returns the call as its dialect can express it.
func (c ToolCall) piece(d Dialect) conform.Piece {
	p := conform.Piece{Kind: "call", ID: c.ID, Name: c.FlatName(), Args: c.Arguments(), Parts: c.Args}
	switch d {
	case Responses:
		p.Name, p.Space, p.Custom, p.Search = c.Name, c.Namespace, c.Custom, c.Search
	case Chat:
		p.Custom = c.Custom
	}
	return p
}

// Seal returns the text with which the vendor seals its reasoning. Chat has none.
func (d Dialect) Seal() string {
	return map[Dialect]string{Responses: "ZW5jcnlwdGVk", Messages: "c2lnbmF0dXJl", Gemini: "c2lnLWNhbGw=", Converse: "c2VhbA=="}[d]
}

// Stream is a reply as the events of a stream.
type Stream conform.Stream

// All returns all events in order.
func (s Stream) All() []string { return slices.Concat(s.Head, s.Words, s.Tail) }

// FinishOffset returns the offset in a role's stream at which the event with the finish
// reason ends, without its blank line. A stream truncated before it is incomplete.
func FinishOffset(d Dialect, role string) int {
	s := Reply{Dialect: d, Words: Words(role)}.Stream()
	last := map[Dialect]int{Responses: 3, Messages: 1, Converse: 1}[d]
	proof := strings.Join(s.Head, "") + strings.Join(s.Words, "") + strings.Join(s.Tail[:last+1], "")
	return len(strings.TrimSuffix(proof, "\n\n"))
}

// Text returns the text in one piece.
func (r Reply) Text() string { return strings.Join(r.Words, "") }

// response returns the reply in the form of conform. Gemini seals the first call, the other
// vendors seal the reasoning.
func (r Reply) response() conform.Response {
	if r.In+r.Out == 0 {
		r.In, r.Out = InputTokens, OutputTokens
	}
	out := conform.Response{Stop: "end", Usage: &conform.Usage{In: r.In, Cached: r.Cached, Out: r.Out, Think: r.Reasoning}}
	if len(r.Thought) > 0 {
		p := conform.Piece{Kind: "think", Text: strings.Join(r.Thought, ""), Parts: r.Thought}
		if r.Dialect != Gemini {
			p.Sig = r.Dialect.Seal()
		}
		out.Pieces = append(out.Pieces, p)
	}
	if len(r.Words) > 0 {
		out.Pieces = append(out.Pieces, conform.Piece{Kind: "text", Text: r.Text(), Parts: r.Words})
	}
	for i, c := range r.Calls {
		p := c.piece(r.Dialect)
		if i == 0 && r.Dialect == Gemini {
			p.Sig = r.Dialect.Seal()
		}
		out.Pieces, out.Stop = append(out.Pieces, p), "tool"
	}
	return out
}

func (r Reply) model() string {
	if r.Model == "" {
		return "up"
	}
	return r.Model
}

// Stream returns the reply as events.
func (r Reply) Stream() Stream {
	return Stream(r.Dialect.wire().WriteStream(r.response(), r.model(), r.Usage))
}

// Body returns the reply as one JSON body.
func (r Reply) Body() string { return r.Dialect.wire().WriteBody(r.response(), r.model()) }

// ErrorBody returns an error as the vendor sends it.
func (d Dialect) ErrorBody(status int, message string) string {
	return d.wire().WriteError(status, message)
}

// ErrorEvent returns an error inside a stream, after a number of events.
func (d Dialect) ErrorEvent(status int, message string, after int) string {
	return d.wire().WriteStreamError(status, message, after)
}

// IdleEvent returns the event or comment with which servers of the dialect keep a stream
// alive.
func (d Dialect) IdleEvent() string { return d.wire().IdleEvent() }
