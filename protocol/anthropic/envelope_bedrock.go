package anthropic

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// bedrock is the envelope of InvokeModel of Amazon Bedrock.
var bedrock = &cloud{version: "bedrock-2023-05-31", characters: "-._:/"}

// The last segments of the paths.
const (
	bedrockInvoke = "invoke"
	bedrockStream = "invoke-with-response-stream"
	bedrockCount  = "count-tokens"
)

// bedrockPath matches the paths of clients that are configured for Bedrock.
var bedrockPath = regexp.MustCompile(`^/model/([^/]+)/(` + bedrockInvoke + `|` + bedrockStream + `|` + bedrockCount + `)$`)

func bedrockEnvelope() *codec.Envelope {
	return &codec.Envelope{
		Name:   "bedrock",
		Wrap:   wrapBedrock,
		Unwrap: unwrapBedrock,
		Frames: &codec.Frames{Decode: decodeFrame, Encode: encodeFrame},
		Open:   openBedrock,
		Seal:   sealBedrock,
		Header: bedrockHeader,
	}
}

// tagsBeta begins the names of the beta features of tags.
const tagsBeta = "tags-"

// wrapBedrock writes a request for InvokeModel. Bedrock has no tags.
func wrapBedrock(out *protocol.Outgoing, place codec.Place, report *llm.Report) *llm.Error {
	x, bad := wire.IndexObject(out.Body)
	if bad != nil {
		return codec.InvalidBody(bad)
	}
	if x.Has("tags") {
		report.Drop("tags", "tags.unsupported", "they label the request on Anthropic's bill, which Bedrock does not write")
	}
	if betas := betasOf(out.Header); len(betas) > 0 {
		betas = slices.DeleteFunc(betas, func(beta string) bool { return strings.HasPrefix(beta, tagsBeta) })
		out.Header.Set(betaHeader, strings.Join(betas, ","))
	}
	if out.Path == countPath {
		return wrapCount(out, &x, place)
	}
	verb, media := bedrockInvoke, "application/json"
	if place.Stream {
		verb, media = bedrockStream, "application/vnd.amazon.eventstream"
	}
	var err *llm.Error
	if out.Path, err = bedrockPathOf(place.Model, verb); err != nil {
		return err
	}
	if err := bedrock.wrap(out, false, "stream", "tags"); err != nil {
		return err
	}
	out.Header.Set("Accept", media)
	return nil
}

// wrapCount writes a request for CountTokens: the body of InvokeModel inside of another.
// CountTokens takes the ids of foundation models only, without the region of a profile.
func wrapCount(out *protocol.Outgoing, x *wire.Index, place codec.Place) *llm.Error {
	model := place.Model
	if i := strings.Index(model, "anthropic."); i > 0 {
		model = model[i:]
	}
	var err *llm.Error
	if out.Path, err = bedrockPathOf(model, bedrockCount); err != nil {
		return err
	}
	if !x.Has("max_tokens") { // InvokeModel requires it
		out.Body = wire.Patch(out.Body, []wire.Edit{x.Set("max_tokens", "1")})
	}
	if err := bedrock.wrap(out, false, "stream", "tags"); err != nil {
		return err
	}
	out.Body = []byte(`{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString(out.Body) + `"}}}`)
	out.Header.Set("Accept", "application/json")
	return nil
}

func bedrockPathOf(model, verb string) (string, *llm.Error) {
	segment, err := codec.ModelSegment(model, bedrock.characters)
	return "/model/" + segment + "/" + verb, err
}

// unwrapBedrock returns an error or a token count in the form of the protocol.
func unwrapBedrock(status int, header http.Header, body []byte) (int, []byte) {
	if status >= http.StatusBadRequest {
		if status == http.StatusFailedDependency { // the model failed, not the request
			status = http.StatusBadGateway
		}
		return unwrapError(status, header, body)
	}
	var count struct {
		InputTokens wire.Number `json:"inputTokens"`
	}
	if json.Unmarshal(body, &count, wire.Lenient) != nil {
		return status, body
	}
	n, err := count.InputTokens.Int64()
	if err != nil {
		return status, body
	}
	return status, Codec{}.EncodeCount(n)
}

// exceptions maps Bedrock's exceptions to the protocol's error types and statuses.
var exceptions = []struct {
	name, typ string
	statuses  []int
}{
	{"throttlingException", "rate_limit_error", []int{http.StatusTooManyRequests}},
	{"serviceUnavailableException", "overloaded_error", []int{http.StatusServiceUnavailable, statusOverloaded}},
	{"modelTimeoutException", "timeout_error", []int{http.StatusRequestTimeout, http.StatusGatewayTimeout}},
	{"validationException", "invalid_request_error", []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}},
	{"accessDeniedException", "permission_error", []int{http.StatusUnauthorized, http.StatusForbidden}},
	{"resourceNotFoundException", "not_found_error", []int{http.StatusNotFound}},
	{"internalServerException", "api_error", nil}, // and everything else
}

// decodeFrame appends the events of a frame. A chunk holds an event as base64.
func decodeFrame(f codec.Frame, to []byte) []byte {
	if f.Type == codec.EventFrame {
		var chunk struct {
			Bytes []byte `json:"bytes"`
		}
		if err := json.Unmarshal(f.Payload, &chunk, wire.Lenient); err != nil || f.Name != "chunk" {
			return to // an event that is not a part of the response
		}
		var event struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal(chunk.Bytes, &event, wire.Lenient) // the codec reports what is wrong
		return sse.AppendEvent(to, event.Type, chunk.Bytes)
	}
	text := string(f.Payload)
	if f.Type != codec.ErrorFrame {
		text = wire.FindError(f.Payload).Message
	}
	typ := "api_error"
	for _, e := range exceptions {
		if strings.EqualFold(e.name, f.Name) {
			typ = e.typ
		}
	}
	b := wire.AppendQuote([]byte(`{"type":"error","error":{"type":`), typ)
	b = wire.AppendQuote(append(b, `,"message":`...), text)
	return sse.AppendEvent(to, "error", append(b, "}}"...))
}

// encodeFrame appends the frames of an event. Bedrock sends no pings and no heartbeats.
func encodeFrame(_, data []byte, to []codec.Frame) []codec.Frame {
	if text := bytes.TrimSpace(data); len(text) == 0 || text[0] == ':' {
		return to
	}
	var event struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &event, wire.Lenient) // an event that cannot be read is passed on
	switch event.Type {
	case "ping":
		return to
	case "error":
		f := codec.Frame{Type: codec.ExceptionFrame, Payload: message(event.Error.Message)}
		for _, e := range exceptions {
			if f.Name = e.name; e.typ == event.Error.Type {
				break
			}
		}
		return append(to, f)
	}
	payload := base64.StdEncoding.AppendEncode([]byte(`{"bytes":"`), data)
	return append(to, codec.Frame{Type: codec.EventFrame, Name: "chunk", Payload: append(payload, `"}`...)})
}

// message returns the body of an exception.
func message(text string) []byte { return append(wire.AppendQuote([]byte(`{"message":`), text), '}') }

// openBedrock reads a request of a client that is configured for Bedrock. A token count has
// the body of InvokeModel inside of another.
func openBedrock(at codec.Location, body []byte) ([]byte, http.Header, *llm.Error) {
	if at.Operation != codec.CountTokens {
		return bedrock.open(at, body)
	}
	var count struct {
		Input struct {
			Invoke *struct {
				Body []byte `json:"body"`
			} `json:"invokeModel"`
		} `json:"input"`
	}
	if err := json.Unmarshal(body, &count, wire.Lenient); err != nil || count.Input.Invoke == nil {
		return nil, nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Param: "input", Message: "the request has no input.invokeModel.body with a request in base64"}
	}
	return bedrock.open(at, count.Input.Invoke.Body)
}

// overflow is Bedrock's message for a prompt that exceeds the context window. Claude Code
// looks for it.
const overflow = "Input is too long"

// sealBedrock writes an error or a token count as Bedrock does. An error also keeps the members
// of the protocol, which the vendor's own SDKs read.
func sealBedrock(status int, body []byte) []byte {
	c := Codec{}
	if status < http.StatusBadRequest {
		n, err := c.DecodeCount(body)
		if err != nil {
			return body
		}
		return append(strconv.AppendInt([]byte(`{"inputTokens":`), n, 10), '}')
	}
	found := wire.FindError(body)
	text := found.Message
	if rest, ok := strings.CutPrefix(text, tooLong+": "); ok && strings.Contains(rest, overflow) {
		text = rest
	} else if overflows(found) && !strings.Contains(text, overflow) {
		text = overflow + ". " + text
	}
	x, err := wire.IndexObject(body)
	if err != nil {
		return message(text)
	}
	return wire.Patch(body, []wire.Edit{x.Set("message", wire.Quote(text))})
}

// bedrockHeader returns the headers by which Bedrock's clients read a response.
func bedrockHeader(status int, stream bool) http.Header {
	switch {
	case stream:
		return http.Header{"X-Amzn-Bedrock-Content-Type": {"application/json"}}
	case status < http.StatusBadRequest:
		return nil
	}
	name := ""
	for _, e := range exceptions {
		if name = e.name; slices.Contains(e.statuses, status) {
			break
		}
	}
	return http.Header{"X-Amzn-Errortype": {strings.ToUpper(name[:1]) + name[1:]}}
}
