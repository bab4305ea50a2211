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
	"github.com/isogloss-gateway/isogloss/sse"
)

// decodeError reads the value of an `error` member. Servers put many shapes
// there: OpenAI's object, a bare string, a numeric code (ERR-03, ERR-04). The
// status is not known here, because such an error came inside a 200.
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
	if json.Unmarshal(raw, &body, lenient) != nil {
		return e
	}
	if m := scalar(body.Message); m != "" {
		e.Message = m
	}
	e.Code, e.Param = scalar(body.Code), scalar(body.Param)
	if status, err := strconv.Atoi(e.Code); err == nil {
		e.Kind, e.Status = kindOfStatus(status)
		if tooLong(scalar(body.Type), "") { // llama.cpp says so in the type alone
			e.Code = llm.ContextLength
		}
		return e
	}
	e.Kind = kindOfWords(scalar(body.Type) + " " + e.Code)
	return e
}

// DecodeError reads an error answer. Most servers have OpenAI's envelope; others
// put a message at the top, a list of details, or a page of HTML there.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e := bestError(body)
	// Clouds that resell a model put its own error into their message, ERR-17.
	if strings.HasPrefix(e.Message, "{") {
		if inner := bestError([]byte(e.Message)); inner.Relayed {
			e = inner
		}
	}
	e.Relayed = true
	switch kind, own := kindOfStatus(status); {
	case status == http.StatusBadRequest && e.Kind == llm.Quota, status == http.StatusTooManyRequests && e.Kind == llm.Quota, status == http.StatusPaymentRequired:
		e.Kind, e.Status = llm.Quota, 0
	case e.Kind == llm.UpstreamAuth && (status == http.StatusBadRequest || status == http.StatusForbidden):
		e.Status = 0 // some do not say it with 401
	case status == http.StatusForbidden:
		e.Kind, e.Status = llm.Permission, 0
	default:
		e.Kind, e.Status = kind, own
	}
	switch status {
	case http.StatusNotFound:
		e.Kind = llm.NotFound
	case http.StatusRequestEntityTooLarge:
		e.Kind = llm.TooLarge
	}
	if tooLong(e.Code, e.Message) && e.Kind == llm.InvalidRequest {
		e.Code, e.Status = llm.ContextLength, 0
	}
	e.RetryAfter = protocol.RetryAfter(header)
	return e
}

// OverflowWords are those by which clients know that a prompt is too long.
func (Codec) OverflowWords() string { return llm.ContextLength }

// tooLong recognises a prompt that does not fit, in the words of many servers.
func tooLong(code, message string) bool {
	for _, w := range []string{"context_length", "exceed_context", "maximum context length", "prompt is too long", "context window"} {
		if strings.Contains(code, w) || strings.Contains(message, w) {
			return true
		}
	}
	return false
}

// bestError finds the error in a body of whatever shape.
func bestError(body []byte) *llm.Error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) > 0 && trimmed[0] == '[' { // some wrap it in a list
		var list []jsontext.Value
		if json.Unmarshal(trimmed, &list, lenient) == nil && len(list) > 0 {
			trimmed = list[0]
		}
	}
	var shape struct {
		Error   jsontext.Value `json:"error"`
		Errors  jsontext.Value `json:"errors"`
		Message jsontext.Value `json:"message"`
		Detail  jsontext.Value `json:"detail"`
	}
	if json.Unmarshal(trimmed, &shape, lenient) != nil {
		return &llm.Error{Message: "the upstream answered with an error that is not JSON"}
	}
	switch {
	case present(shape.Error):
		return decodeError(shape.Error)
	case present(shape.Message):
		return decodeError(jsontext.Value(trimmed))
	}
	for _, v := range []jsontext.Value{shape.Detail, shape.Errors} {
		if present(v) {
			if text := scalar(v); text != "" {
				return &llm.Error{Message: text}
			}
			return &llm.Error{Message: string(v)}
		}
	}
	return &llm.Error{Message: "the upstream answered with an error without a message"}
}

// ErrorStatus is the kind's own status.
func (Codec) ErrorStatus(e *llm.Error) int { return e.HTTPStatus() }

// scalar is the text of a JSON string or number; anything else has none.
func scalar(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		var s string
		if json.Unmarshal(v, &s, lenient) == nil {
			return s
		}
	case '0':
		return string(v)
	default:
	}
	return ""
}

// kindOfStatus sorts an HTTP status that an upstream has put into a body.
func kindOfStatus(status int) (llm.Kind, int) {
	switch {
	case status == http.StatusUnauthorized:
		return llm.UpstreamAuth, 0
	case status == http.StatusTooManyRequests:
		return llm.RateLimit, 0
	case status == http.StatusServiceUnavailable, status == 529:
		return llm.Overloaded, 0
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout:
		return llm.Timeout, 0
	case status >= 400 && status < 500:
		return llm.InvalidRequest, status
	}
	return llm.Upstream, 0
}

// kindOfWords sorts an error by the words of its type and code.
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

// kindWire is the type and, where the error brings no code of its own, the code
// that OpenAI's API uses for a kind.
var kindWire = map[llm.Kind]struct{ typ, code string }{
	llm.InvalidRequest:   {"invalid_request_error", ""},
	llm.Authentication:   {"invalid_request_error", "invalid_api_key"},
	llm.Permission:       {"permission_error", ""},
	llm.NotFound:         {"invalid_request_error", "not_found"},
	llm.MethodNotAllowed: {"invalid_request_error", "method_not_allowed"},
	llm.TooLarge:         {"invalid_request_error", "request_too_large"},
	llm.UnsupportedMedia: {"invalid_request_error", "unsupported_media_type"},
	llm.RateLimit:        {"rate_limit_error", "rate_limit_exceeded"},
	llm.Quota:            {"insufficient_quota", "insufficient_quota"},
	llm.Overloaded:       {"server_error", "overloaded"},
	llm.Timeout:          {"server_error", "timeout"},
	llm.Upstream:         {"server_error", "upstream_error"},
	llm.UpstreamAuth:     {"server_error", "upstream_auth"},
	llm.Cancelled:        {"server_error", "client_closed_request"},
	llm.Internal:         {"server_error", "internal_error"},
}

// EncodeError writes OpenAI's error envelope, with all four members.
func (Codec) EncodeError(e *llm.Error) []byte {
	w, ok := kindWire[e.Kind]
	if !ok {
		w = kindWire[llm.Internal]
	}
	if e.Code != "" {
		w.code = e.Code
	}
	b := appendString([]byte(`{"error":{"message":`), e.Message)
	b = appendString(append(b, `,"type":`...), w.typ)
	b = appendNullable(append(b, `,"param":`...), e.Param)
	b = appendNullable(append(b, `,"code":`...), w.code)
	return append(b, "}}"...)
}

// EncodeStreamError writes the unnamed event that OpenAI's SDKs raise as an API
// error. No [DONE] follows it.
func (c Codec) EncodeStreamError(e *llm.Error) []byte {
	return sse.AppendEvent(nil, "", c.EncodeError(e))
}

func appendString(b []byte, s string) []byte {
	// The error is about invalid UTF-8, which is replaced; the text is complete.
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}
