package anthropic

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// statusOverloaded is Anthropic's own status for an overloaded service.
const statusOverloaded = 529

// tooLong is Anthropic's message for a prompt that exceeds the context window.
// Agents look for it to shorten the prompt. ERR-18
const tooLong = "prompt is too long"

// DecodeError decodes an error response of any shape.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e := decodeErrorBody(status, body)
	codec.CloudError(e, header, body)
	return e
}

// decodeErrorBody decodes an error object. The status is 0 for an error inside a
// stream or a response with status 200.
func decodeErrorBody(status int, body []byte) *llm.Error {
	f := wire.FindError(body)
	e := &llm.Error{Message: f.Message, Code: f.Code, Param: f.Param, Relayed: f.Message != ""}
	if status == 0 {
		status = f.HTTPStatus() // a status in place of a code, ERR-03
	}
	e.Kind = kindOf(status, f.Type+" "+f.Code)
	if e.Kind == llm.InvalidRequest && status >= 400 {
		e.Status = status
	}
	if e.Kind == llm.InvalidRequest && overflows(f) {
		e.Code, e.Status = llm.ContextLength, 0
	}
	if e.Message == "" {
		e.Message = "the upstream reported an error without a message"
		if text := http.StatusText(status); text != "" {
			e.Message = "the upstream returned status " + strconv.Itoa(status) + " (" + text + ")"
		}
	}
	return e
}

// overflows reports whether an error means that the prompt exceeds the context
// window. It knows Anthropic's wording and that of engines which speak its
// protocol. ERR-18
func overflows(f wire.FoundError) bool {
	message := strings.ToLower(f.Message)
	return strings.Contains(message, tooLong) || strings.Contains(message, "context length") || strings.Contains(f.Message, overflow) ||
		strings.Contains(f.Type, "exceed_context") || f.Code == llm.ContextLength
}

// kindWords maps words of error types and codes to kinds, the most specific
// first.
var kindWords = []struct {
	word string
	kind llm.Kind
}{
	{"insufficient_quota", llm.Quota},
	{"billing", llm.Quota},
	{"spend_limit", llm.Quota},
	{"rate_limit", llm.RateLimit},
	{"overloaded", llm.Overloaded},
	{"unavailable", llm.Overloaded},
	{"authentication", llm.UpstreamAuth},
	{"invalid_api_key", llm.UpstreamAuth},
	{"permission", llm.Permission},
	{"not_found", llm.NotFound},
	{"too_large", llm.TooLarge},
	{"timeout", llm.Timeout},
	{"invalid_request", llm.InvalidRequest},
	{llm.ContextLength, llm.InvalidRequest},
}

// kindOf derives an error's kind from its status, and from its words where there
// is no status or where they are more specific.
func kindOf(status int, words string) llm.Kind {
	byWords := llm.Upstream
	for _, k := range kindWords {
		if strings.Contains(words, k.word) {
			byWords = k.kind
			break
		}
	}
	switch {
	case status == 0, status == http.StatusOK, byWords == llm.Quota:
		return byWords
	case byWords == llm.UpstreamAuth && (status == http.StatusBadRequest || status == http.StatusForbidden):
		return llm.UpstreamAuth
	}
	kind, _ := codec.KindOfStatus(status)
	return kind
}

// isError reports whether a body is an error object.
func isError(typ string, err wire.Raw) bool {
	k := err.Kind()
	return typ == "error" || k == '{' || k == '"' && len(err) > len(`""`)
}

// kindTypes maps error kinds to Anthropic's error types.
var kindTypes = map[llm.Kind]string{
	llm.InvalidRequest:   "invalid_request_error",
	llm.Authentication:   "authentication_error",
	llm.Permission:       "permission_error",
	llm.NotFound:         "not_found_error",
	llm.MethodNotAllowed: "invalid_request_error",
	llm.TooLarge:         "request_too_large",
	llm.UnsupportedMedia: "invalid_request_error",
	llm.NotSupported:     "not_supported", // Claude Code then counts tokens itself
	llm.RateLimit:        "rate_limit_error",
	llm.Quota:            "billing_error",
	llm.Overloaded:       "overloaded_error",
	llm.Timeout:          "timeout_error",
}

// EncodeError writes Anthropic's error envelope. Its SDKs branch on the code in
// details, which other clients ignore.
func (Codec) EncodeError(e *llm.Error) []byte {
	typ, ok := kindTypes[kind(e)]
	if !ok {
		typ = "api_error"
	}
	message := e.Message
	if e.Code == llm.ContextLength && !strings.Contains(strings.ToLower(message), tooLong) {
		message = tooLong + ": " + message
	}
	if e.Code == llm.BudgetExceeded && e.RetryAfter > 0 { // Claude Code shows the message and nothing else
		message += "; some of it is available again in " + strings.TrimSuffix(max(e.RetryAfter, time.Minute).Round(time.Minute).String(), "0s")
	}
	b := wire.AppendQuote([]byte(`{"type":"error","error":{"type":`), typ)
	b = wire.AppendQuote(append(b, `,"message":`...), message)
	if e.Code != "" {
		b = wire.AppendQuote(append(b, `,"details":{"error_code":`...), e.Code)
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// kind returns the kind under which an error is sent. Claude Code takes every 403 for a failed
// sign-in, so a model that the gateway does not permit is an invalid request.
func kind(e *llm.Error) llm.Kind {
	if e.Code == llm.ModelNotAllowed && !e.Relayed {
		return llm.InvalidRequest
	}
	return e.Kind
}

// EncodeStreamError writes the error event that ends a stream. No message_stop
// follows.
func (c Codec) EncodeStreamError(e *llm.Error) []byte {
	return sse.AppendEvent(nil, "error", c.EncodeError(e))
}

// ErrorStatus returns the HTTP status that Anthropic uses for an error.
func (Codec) ErrorStatus(e *llm.Error) int {
	switch {
	case e.Status != 0:
		return e.Status
	case e.Kind == llm.Overloaded:
		return statusOverloaded
	case e.Kind == llm.Quota && e.Code != llm.BudgetExceeded: // Claude Code expects 429 for a budget of a gateway
		return http.StatusPaymentRequired
	case kind(e) != e.Kind:
		return http.StatusBadRequest
	}
	return e.HTTPStatus()
}
