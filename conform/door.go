package conform

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/sse"
)

// The readers and writers of this package serve tests of other packages, too: one reader
// judges all requests and responses of a dialect.

// All returns everything that is wrong with a response.
func (r Reading) All() []string { return slices.Concat(r.Problems, r.Values) }

// ReadStream reads a stream as a client of the dialect.
func (d Dialect) ReadStream(stream []byte) Reading {
	events, rest := d.readEvents(stream)
	r := codecOf(d).readStream(events)
	r.Problems.addIf(rest != "", "the stream ends inside an event: %.80q", rest)
	return r
}

// ReadText is ReadStream for a stream in server-sent events. Those of Converse have the name
// of the event as their only member, as in tests of codecs.
func (d Dialect) ReadText(stream []byte) Reading {
	if d != Converse {
		return d.ReadStream(stream)
	}
	texts, rest := readEvents(stream)
	var events []event
	var bad problemList
	for _, e := range texts {
		o, err := parse([]byte(e.data))
		if names := o.names(); err != nil || e.name != "" || len(names) != 1 {
			bad.add("not an event of one member: %q %.80q", e.name, e.data)
		} else {
			events = append(events, event{names[0], o.at(names[0]).String()})
		}
	}
	r := codecOf(d).readStream(events)
	bad.addIf(rest != "", "the stream ends inside an event: %.80q", rest)
	r.Problems = append(bad, r.Problems...)
	return r
}

// CheckFraming returns what clients may stumble over in a text of server-sent events.
func CheckFraming(stream []byte) []string {
	var bad problemList
	for line := range bytes.Lines(stream) {
		bad.addIf(bytes.HasPrefix(line, []byte("id:")), "an id line (SSE-10)")
	}
	bad.addIf(bytes.HasPrefix(stream, []byte("\n")) || bytes.Contains(stream, []byte("\n\n\n")), "a blank line that does not end an event (SSE-10)")
	bad.addIf(len(stream) > 0 && !bytes.HasSuffix(stream, []byte("\n")), "the last line has no line end (SSE-17)")
	r := sse.NewReader(bytes.NewReader(stream), sse.Options{})
	for {
		e, err := r.Next()
		if err != nil {
			_, rest := r.Last()
			bad.addIf(rest, "the last event has no blank line (SSE-17)")
			return bad
		}
		bad.addIf(!e.HasData, "an event without data (SSE-09)")
	}
}

// ReadBody reads a response in one body.
func (d Dialect) ReadBody(body []byte) Reading { return codecOf(d).readBody(body) }

// ReadError reads an error response, or returns an error if it does not have the form of the
// dialect.
func (d Dialect) ReadError(status int, body []byte) (APIError, error) {
	return codecOf(d).readError(status, body)
}

// ReadRequest reads a request as the vendor. The path may have a query.
func (d Dialect) ReadRequest(path string, h http.Header, body []byte) Received {
	escaped, query, _ := strings.Cut(path, "?")
	path, err := url.PathUnescape(escaped)
	r := codecOf(d).readRequest(body, h, path)
	r.Problems.addIf(err != nil || !endpoints[d].MatchString(escaped), "there is no endpoint %s", escaped)
	r.Problems.addIf(d == Gemini && r.Stream && !strings.Contains(query, "alt=sse"), "a stream that is not requested as server-sent events")
	for _, t := range r.Turns {
		for _, p := range ofKind(t.Pieces, kindCall) {
			// Other servers of the dialect make longer ids, and so do upstreams of cases.
			r.Problems.addIf(d == Chat && len(p.ID) > 40, "the id of a call has %d characters, at most 40", len(p.ID))
		}
	}
	return r
}

// endpoints match the escaped paths of requests that generate or count tokens.
var endpoints = map[Dialect]*regexp.Regexp{
	Chat:      regexp.MustCompile(`^/v1/chat/completions$`),
	Responses: regexp.MustCompile(`^/v1/responses(/input_tokens)?$`),
	Anthropic: regexp.MustCompile(`^/v1/messages(/count_tokens)?$`),
	Gemini:    regexp.MustCompile(`^/v1(beta)?/models/[^/:]+:(generateContent|streamGenerateContent|countTokens)$`),
	Converse:  regexp.MustCompile(`^/model/[^/]+/(converse|converse-stream|count-tokens)$`),
}

// UsageInStream reports whether a request asks for usage in a stream, which Chat sends only
// then.
func (r Received) UsageInStream() bool { return r.options.usage }

// Text returns the text of a response, with that of a refusal.
func (r Reading) Text() string { return joined(r.Pieces, kindText, kindRefusal) }

// Stream is a response as the events of a stream, in bytes.
type Stream struct {
	Head  []string // the events before the first with text
	Words []string // the events with text
	Tail  []string // the events after the last with text
}

// WriteStream writes a response as the vendor streams it. Usage tells whether the request
// asked for usage, which Chat sends only then.
func (d Dialect) WriteStream(r Response, model string, usage bool) (s Stream) {
	v := codecOf(d)
	r = v.fitResponse(r)
	r.model, r.options = model, options{usage: usage, sealed: true}
	for _, e := range v.writeStream(r) {
		text := d.bytes(e)
		switch {
		case d.hasText(e):
			s.Words = append(s.Words, text)
		case s.Words == nil:
			s.Head = append(s.Head, text)
		default:
			s.Tail = append(s.Tail, text)
		}
	}
	if s.Words == nil { // what follows the head is known by the caller only
		s.Head, s.Tail = s.Head[:1], s.Head[1:]
	}
	return s
}

func (d Dialect) bytes(e event) string {
	if d == Converse {
		return string(appendFrame(nil, e))
	}
	return string(framing{}.block(e))
}

// hasText reports whether an event adds to the text.
func (d Dialect) hasText(e event) bool {
	o, err := parse([]byte(e.data))
	if err != nil {
		return false // [DONE]
	}
	switch d {
	case Chat:
		choices := o.at("choices").list()
		return len(choices) > 0 && choices[0].at("delta", "content").str() != ""
	case Responses:
		return e.name == "response.output_text.delta"
	case Anthropic:
		return o.at("delta", "type").str() == "text_delta"
	case Converse:
		return o.at("delta", "text").here
	}
	for _, c := range o.at("candidates").list() {
		for _, p := range c.at("content", "parts").list() {
			return p.at("text").str() != "" && !p.at("thought").yes()
		}
	}
	return false
}

// WriteBody writes a response in one body.
func (d Dialect) WriteBody(r Response, model string) string {
	v := codecOf(d)
	r = v.fitResponse(r)
	r.model, r.options = model, options{usage: true, sealed: true}
	return string(v.writeBody(r))
}

// WriteError writes an error response with its status.
func (d Dialect) WriteError(status int, message string) string {
	_, body := codecOf(d).writeError(APIError{Kind: kindByStatus(status, ""), Status: status, Message: message})
	return string(body)
}

// WriteStreamError writes the event with which a stream breaks off. Before is the number of
// events before it, which events of Responses have.
func (d Dialect) WriteStreamError(status int, message string, before int) string {
	events := codecOf(d).writeStreamError(APIError{Kind: kindByStatus(status, ""), Status: status, Message: message}, Response{})
	last := events[len(events)-1]
	if o, err := parse([]byte(last.data)); d == Responses && err == nil {
		members, _ := o.v.(object)
		members["sequence_number"] = before
		last.data = string(encode(members))
	}
	return d.bytes(last)
}

// IdleEvent returns the event or comment with which servers keep a stream alive. Converse has
// none: a text may come in empty parts.
func (d Dialect) IdleEvent() string {
	switch d {
	case Anthropic:
		return d.bytes(typed(object{"type": "ping"}))
	case Converse:
		return d.bytes(frameEvent("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": ""}}))
	}
	return ": processing\n\n"
}
