// Package misplaced reads requests of the Responses API that clients send to the path of Chat
// Completions, as Cursor does. The response has the form that the path promises.
package misplaced

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
	"github.com/isogloss-gateway/isogloss/protocol/openairesponses"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Name is the name of the dialect. No upstream speaks it, so that its requests are always
// translated.
const Name protocol.Name = "openai-responses-in-chat"

// Responses returns the dialect of a Responses body at the path of Chat Completions.
func Responses() *codec.OtherBody {
	from := openairesponses.Dialect()
	return &codec.OtherBody{
		Is: func(body *wire.Index) bool { return body.Raw("messages") == nil && body.Raw("input") != nil },
		Dialect: &codec.Dialect{
			Name: Name, Codec: Codec{}, Read: reader(from), Report: report,
			Members: append([]string{"stream_options"}, from.Members...), Fields: from.Fields, Prompt: from.Prompt, Overflow: from.Overflow, Headers: from.Headers, Labels: from.Labels,
		},
	}
}

// report notes what every request loses.
func report(r *llm.Report) {
	r.Approximate("turns", "request.other_api", "the body is one of the Responses API; the response is a chat completion, and nothing is stored")
}

// reader returns a function that reads a request. It rejects a request for something that only the
// path of the Responses API has: data that the vendor keeps, jobs, and further models.
func reader(from *codec.Dialect) func(codec.Location, *wire.Index) (codec.Head, *llm.Error) {
	return func(at codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
		head, err := from.Read(at, body)
		switch refs := from.State.References(body); {
		case err != nil:
			return head, err
		case len(refs) > 0:
			return head, elsewhere(refs[0].Param)
		case head.SideEffects:
			return head, &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: "background",
				Message: "a request with background belongs to /v1/responses; send it there, or without background"}
		case len(head.Inner) > 0:
			return head, elsewhere(head.Inner[0].Param)
		}
		head.Usage = wantsUsage(body)
		return head, nil
	}
}

func elsewhere(param string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: param,
		Message: "a request with " + param + " belongs to /v1/responses; send it there, or send the complete conversation as messages"}
}

// wantsUsage reports whether the request asks for usage in a stream, as chats do.
func wantsUsage(body *wire.Index) bool {
	options, err := body.Object("stream_options")
	return err == nil && options.Raw("include_usage").Kind() == 't'
}

// Codec reads requests of the Responses API and writes chat completions.
type Codec struct{ openaichat.Codec }

// DecodeRequest decodes a request. The vendor stores nothing, because the client cannot refer to it.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	body, bad := wire.IndexObject(in.Body)
	if bad != nil {
		return nil, codec.InvalidBody(bad)
	}
	usage := wantsUsage(&body)
	if e, ok := body.Remove("stream_options"); ok { // the two APIs have other members in it
		in.Body = wire.Patch(in.Body, []wire.Edit{e})
	}
	req, err := openairesponses.Codec{}.DecodeRequest(in)
	if err != nil {
		return nil, err
	}
	req.IncludeUsage, req.State.Store = usage, new(false)
	return req, nil
}
