package relay

import (
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// projection is what the gateway knows of a request's body: an index of its
// top-level members and the few values that routing needs. Nothing downstream of
// it holds a prompt: routing, limits and logs see a projection, not the messages.
type projection struct {
	object
	model  string
	stream bool
	usage  bool // the client asks for usage on a stream
	n      int  // choices asked for
}

// The members that the gateway acts on.
var (
	actedOn        = []string{"model", "stream", "stream_options", "n", "nvext", "max_tokens", "max_completion_tokens"}
	actedOnOptions = []string{"include_usage"}
)

// project indexes a body and reads the values that routing needs.
func project(body []byte) (*projection, *llm.Error) {
	p, err := scan(body)
	if err != nil {
		return nil, err
	}
	return p, p.read()
}

// scan indexes a body.
func scan(body []byte) (*projection, *llm.Error) {
	if !utf8.Valid(body) {
		return nil, badJSON("the body is not valid UTF-8")
	}
	o, err := index(body, span{0, len(body)}, actedOn)
	if err != nil {
		return nil, err
	}
	return &projection{object: o, n: 1}, nil
}

func (p *projection) read() *llm.Error {
	model := p.raw("model")
	if model.Kind() != '"' {
		return &llm.Error{Kind: llm.InvalidRequest, Code: "missing_required_parameter", Param: "model",
			Message: "the request has no model; write \"model\": \"NAME\" with a name that GET /v1/models lists"}
	}
	// The error is about lone surrogates only; they become U+FFFD and no
	// configured name holds that.
	text, _ := jsontext.AppendUnquote(nil, model)
	p.model = string(text)
	switch p.raw("stream").Kind() {
	case 't':
		p.stream = true
	case 'f', 0:
	default:
		return wrongType("stream", "true or false")
	}
	// n only says how many finishes prove the end of a stream; an odd value is
	// the upstream's to refuse.
	if n, err := strconv.Atoi(string(p.raw("n"))); err == nil && n > 1 {
		p.n = n
	}
	return p.readStreamOptions()
}

func (p *projection) readStreamOptions() *llm.Error {
	switch p.raw("stream_options").Kind() {
	case 0:
		return nil
	case '{':
	default:
		return wrongType("stream_options", "an object")
	}
	opts, err := p.inner("stream_options", actedOnOptions)
	if err != nil {
		return err
	}
	p.usage = opts.raw("include_usage").Kind() == 't'
	return nil
}

// inner indexes a member that is known to be an object.
func (p *projection) inner(name string, acted []string) (object, *llm.Error) {
	m, _ := p.find(name)
	return index(p.body, m.at, acted)
}

func wrongType(name, want string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_type", Param: name, Message: "\"" + name + "\" must be " + want}
}
