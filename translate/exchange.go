package translate

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Exchange is one translated request, and translates the response to it.
type Exchange struct {
	Path    string      // of the upstream's API, with its query
	Header  http.Header // that the upstream's dialect requires, without credentials
	Body    []byte
	Streams bool       // the request asks for a stream
	Losses  []llm.Loss // what the upstream's dialect cannot express, by the client's names of the fields

	translator *Translator
	pair       pair.Pair
	input      wire.Index // the client's body, with its references expanded
	request    *llm.Request
	passes     bool // between equal dialects, so that only the name of the model changes
	undo       llm.Undo
	choices    int
	id         string
	created    int64
}

// Response is a response for the client.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Losses []llm.Loss // what the client's dialect cannot express of the response
	Usage  *llm.Usage // nil: the upstream reports none
}

// Response translates a response that came in one body. If the upstream sends an error, both results are set: the error,
// and the response that tells it to the client. A client that asked for a stream gets one.
func (x *Exchange) Response(status int, header http.Header, body []byte) (*Response, error) {
	t := x.translator
	if status < 200 || status >= 300 {
		return x.fail(t.upstream.Codec.DecodeError(status, header, body))
	}
	if x.passes {
		tap := t.client.Codec.NewTap(x.choices)
		if err := tap.Body(body); err != nil {
			return x.fail(err)
		}
		return &Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Usage: tap.Summary().Usage}, nil
	}
	resp, err := t.upstream.Codec.DecodeResponse(pair.ValidUTF8(body))
	if err != nil {
		return x.fail(err)
	}
	x.pair.Relabel(resp)
	return x.encode(resp)
}

// Collect translates a stream of the upstream into one response, for a client that did not ask for a stream.
func (x *Exchange) Collect(upstream io.Reader) (*Response, error) {
	s := x.newSource(upstream)
	all := llm.Collector{Limit: x.translator.options.MaxResponse}
	for ended := false; !ended; {
		for _, e := range s.next() {
			if ended {
				break
			}
			_, ended = e.(llm.End)
			if f, failed := e.(llm.Failure); failed {
				return x.fail(f.Err)
			}
			if err := all.Add(e); err != nil {
				return x.fail(notCollected(err))
			}
		}
	}
	resp, err := all.Response()
	if err != nil {
		return x.fail(notCollected(err))
	}
	return x.encode(resp)
}

func notCollected(err error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream's stream cannot be collected into one response", Cause: err}
}

// encode writes a response in the client's dialect.
func (x *Exchange) encode(resp *llm.Response) (*Response, error) {
	if err := x.pair.CheckOutput(resp); err != nil {
		return x.fail(err)
	}
	x.undo.Response(resp)
	resp.ID, resp.Created, resp.Model = cmp.Or(resp.ID, x.id), cmp.Or(resp.Created, x.created), cmp.Or(resp.Model, x.pair.Model)
	out := &Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Usage: resp.Usage}
	if x.request.Stream {
		s := x.newStream(&source{events: llm.Explode(resp), over: true}, nil)
		s.undo = nil
		body, err := io.ReadAll(s)
		out.Header.Set("Content-Type", x.ContentType())
		out.Body, out.Losses = body, s.losses
		return out, err
	}
	if recorder, ok := x.recordSeals(); ok {
		recorder.Response(resp)
		recorder.Save(func() conversation.Digest { return conversation.DigestOf(x.request.Turns) })
	}
	var report llm.Report
	out.Body = x.translator.client.Codec.EncodeResponse(resp, x.request, &report)
	out.Losses = report.Losses
	x.recordResponse().Response(out.Body)
	return out, nil
}

// ContentType returns the content type of the response to a client that asked for a stream.
func (x *Exchange) ContentType() string {
	if x.translator.client.Frames != nil {
		return eventstream.MediaType
	}
	return "text/event-stream"
}

// IsStream reports whether the headers of an upstream's response say that it is a stream.
func IsStream(header http.Header) bool {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return media == "text/event-stream" || media == eventstream.MediaType
}

// fail returns an error with the response that tells it to the client.
func (x *Exchange) fail(err *llm.Error) (*Response, error) { return x.translator.Error(err), err }

// asError returns an error as the type that codecs write.
func asError(err error) *llm.Error {
	var e *llm.Error
	if errors.As(err, &e) {
		return e
	}
	return &llm.Error{Kind: llm.Upstream, Message: "the upstream could not be reached, or broke off its response", Cause: err}
}

// recordSeals returns a recorder of the response's sealed reasoning. It reports false without a memory.
func (x *Exchange) recordSeals() (conversation.SealRecorder, bool) {
	t := x.translator
	if t.seals == nil {
		return conversation.SealRecorder{}, false
	}
	return t.seals.NewRecorder(conversation.Caller{}, t.client.OptionalCallIDs), true
}

// recordResponse returns a recorder of the response for requests that refer to it, or nil.
func (x *Exchange) recordResponse() *conversation.ResponseRecorder {
	t := x.translator
	stored := t.client.Stored
	if stored == nil || t.responses == nil || t.client == t.upstream || x.request.State.Store != nil && !*x.request.State.Store {
		return nil
	}
	return t.responses.Record(stored, conversation.Caller{}, x.id, stored.Input(func(name string) []byte { return x.input.Raw(name) }))
}
