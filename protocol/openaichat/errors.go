package openaichat

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// decodeError reads the value of an `error` member of a response with status 200.
// Servers put many shapes there: OpenAI's object, a bare string, a numeric code
// (ERR-03, ERR-04).
func decodeError(raw jsontext.Value) *llm.Error {
	e := &llm.Error{Kind: llm.Upstream, Relayed: true, Message: "the upstream reported an error without a message"}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text != "" {
			e.Message = text
		}
		return e
	}
	var body struct {
		Message jsontext.Value `json:"message"`
		Type    jsontext.Value `json:"type"`
		Param   jsontext.Value `json:"param"`
		Code    jsontext.Value `json:"code"`
	}
	if json.Unmarshal(raw, &body, wire.Lenient) != nil {
		return e
	}
	if m := wire.Scalar(body.Message); m != "" {
		e.Message = m
	}
	e.Code, e.Param = wire.Scalar(body.Code), wire.Scalar(body.Param)
	if status, err := strconv.Atoi(e.Code); err == nil {
		e.Kind, e.Status = protocol.KindOfStatus(status)
		if tooLong(wire.Scalar(body.Type), "") { // llama.cpp reports it only in the type
			e.Code = llm.ContextLength
		}
		return e
	}
	e.Kind = kindOfWords(wire.Scalar(body.Type) + " " + e.Code)
	return e
}

// DecodeError reads an error response. Most servers use OpenAI's envelope; others
// send a message at the top level, a list of details or an HTML page.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e := bestError(body)
	// Clouds that resell a model embed the model's own error in their message,
	// ERR-17.
	if strings.HasPrefix(e.Message, "{") {
		if inner := bestError([]byte(e.Message)); inner.Relayed {
			e = inner
		}
	}
	e.Relayed = true
	switch kind, own := protocol.KindOfStatus(status); {
	case e.Kind == llm.Quota && (status == http.StatusBadRequest || status == http.StatusTooManyRequests):
		e.Status = 0
	case e.Kind == llm.UpstreamAuth && (status == http.StatusBadRequest || status == http.StatusForbidden):
		e.Status = 0 // some servers reject a credential without status 401
	default:
		e.Kind, e.Status = kind, own
	}
	if tooLong(e.Code, e.Message) && e.Kind == llm.InvalidRequest {
		e.Code, e.Status = llm.ContextLength, 0
	}
	protocol.CloudError(e, header, body)
	return e
}

// tooLong recognises a prompt that does not fit, in the words of many servers.
func tooLong(code, message string) bool {
	for _, w := range []string{"context_length", "exceed_context", "maximum context length", "prompt is too long", "context window"} {
		if strings.Contains(code, w) || strings.Contains(message, w) {
			return true
		}
	}
	return false
}

// bestError finds the error object in a body of any shape.
func bestError(body []byte) *llm.Error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) > 0 && trimmed[0] == '[' { // some servers wrap it in a list
		var list []jsontext.Value
		if json.Unmarshal(trimmed, &list, wire.Lenient) == nil && len(list) > 0 {
			trimmed = list[0]
		}
	}
	var shape struct {
		Error   jsontext.Value `json:"error"`
		Errors  jsontext.Value `json:"errors"`
		Message jsontext.Value `json:"message"`
		Detail  jsontext.Value `json:"detail"`
	}
	if json.Unmarshal(trimmed, &shape, wire.Lenient) != nil {
		return &llm.Error{Message: "the upstream returned an error that is not JSON"}
	}
	switch {
	case openai.HasValue(shape.Error):
		return decodeError(shape.Error)
	case openai.HasValue(shape.Message):
		return decodeError(jsontext.Value(trimmed))
	}
	for _, v := range []jsontext.Value{shape.Detail, shape.Errors} {
		if openai.HasValue(v) {
			if text := wire.Scalar(v); text != "" {
				return &llm.Error{Message: text}
			}
			return &llm.Error{Message: string(v)}
		}
	}
	return &llm.Error{Message: "the upstream returned an error without a message"}
}

// ErrorStatus returns the HTTP status of the error's kind.
func (Codec) ErrorStatus(e *llm.Error) int { return e.HTTPStatus() }

// kindOfWords derives the error kind from the words of an error's type and code.
func kindOfWords(words string) llm.Kind {
	switch {
	case strings.Contains(words, "insufficient_quota"):
		return llm.Quota
	case strings.Contains(words, "rate_limit"):
		return llm.RateLimit
	case strings.Contains(words, "overloaded"), strings.Contains(words, "unavailable"):
		return llm.Overloaded
	case strings.Contains(words, "invalid_api_key"), strings.Contains(words, "authentication"):
		return llm.UpstreamAuth
	case strings.Contains(words, "invalid_request"), strings.Contains(words, "context_length"), strings.Contains(words, "exceed_context"):
		return llm.InvalidRequest
	case strings.Contains(words, "timeout"):
		return llm.Timeout
	}
	return llm.Upstream
}

// EncodeError writes OpenAI's error envelope.
func (Codec) EncodeError(e *llm.Error) []byte { return openai.EncodeError(e) }

// EncodeStreamError writes the unnamed event that OpenAI's SDKs raise as an API
// error. No [DONE] follows.
func (c Codec) EncodeStreamError(e *llm.Error) []byte {
	return sse.AppendEvent(nil, "", c.EncodeError(e))
}
