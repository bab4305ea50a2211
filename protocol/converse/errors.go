package converse

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// tooLong is the vendor's message for a prompt that exceeds the context window. Agents look
// for it to shorten the prompt. ERR-18
const tooLong = "Input is too long"

// overflowWords are other words for it, in lower case, of the makers of models.
var overflowWords = []string{"input is too long", "prompt is too long", "exceed context limit", "maximum context length", "context length", "exceeds the maximum number of input tokens", "maximum tokens you requested exceeds"}

// authWords are in the messages of an AccessDeniedException that is about the credential
// itself.
var authWords = []string{"authentication failed", "api key", "bearer token", "security token"}

// DecodeError decodes an error response. The header names the exception; the body of a
// proxy may have any form.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e := decodeErrorBody(status, codec.ExceptionName(header), body)
	e.RetryAfter = codec.RetryAfter(header)
	return e
}

// decodeErrorBody decodes an error object. The status is 0 for an error inside a stream or a
// response with status 200.
func decodeErrorBody(status int, typ string, body []byte) *llm.Error {
	f := wire.FindError(body)
	e := &llm.Error{Message: f.Message, Relayed: f.Message != ""}
	kind, known := codec.KindOfException(cmp.Or(typ, f.Type, f.Code))
	if e.Kind = kind; !known {
		e.Kind = llm.Upstream
		if status != 0 && status != http.StatusFailedDependency {
			e.Kind, _ = codec.KindOfStatus(status)
		}
	}
	message := strings.ToLower(f.Message)
	if e.Kind == llm.Permission && containsAny(message, authWords) {
		e.Kind = llm.UpstreamAuth
	}
	if e.Kind == llm.InvalidRequest {
		if status >= 400 && status < 500 {
			e.Status = status
		}
		if containsAny(message, overflowWords) {
			e.Code, e.Status = llm.ContextLength, 0
		}
	}
	if e.Message == "" {
		e.Message = "the upstream reported an error without a message"
		if text := http.StatusText(status); text != "" {
			e.Message = "the upstream returned status " + strconv.Itoa(status) + " (" + text + ")"
		}
	}
	return e
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// kindTypes maps error kinds to the vendor's exceptions.
var kindTypes = map[llm.Kind]string{
	llm.InvalidRequest:   "ValidationException",
	llm.Authentication:   "UnrecognizedClientException",
	llm.Permission:       "AccessDeniedException",
	llm.NotFound:         "ResourceNotFoundException",
	llm.MethodNotAllowed: "ValidationException",
	llm.TooLarge:         "RequestEntityTooLargeException",
	llm.UnsupportedMedia: "ValidationException",
	llm.NotSupported:     "ValidationException",
	llm.RateLimit:        "ThrottlingException",
	llm.Quota:            "ServiceQuotaExceededException",
	llm.Overloaded:       "ServiceUnavailableException",
	llm.Timeout:          "ModelTimeoutException",
	llm.Upstream:         "ModelErrorException",
}

// streamTypes maps error kinds to the exceptions that a stream may contain.
var streamTypes = map[llm.Kind]string{
	llm.InvalidRequest: "validationException",
	llm.RateLimit:      "throttlingException",
	llm.Quota:          "throttlingException",
	llm.Overloaded:     "serviceUnavailableException",
	llm.Timeout:        "modelStreamErrorException",
	llm.Upstream:       "modelStreamErrorException",
}

// message returns the text of an error for a client.
func message(e *llm.Error) string {
	if e.Code == llm.ContextLength && !containsAny(strings.ToLower(e.Message), overflowWords[:1]) {
		return tooLong + ". " + e.Message
	}
	return e.Message
}

// EncodeError writes an exception. The vendor names it in a header; its SDKs read the body
// if there is none.
func (Codec) EncodeError(e *llm.Error) []byte {
	typ, ok := kindTypes[e.Kind]
	if !ok {
		typ = "InternalServerException"
	}
	b := wire.AppendQuote([]byte(`{"__type":`), typ)
	b = wire.AppendQuote(append(b, `,"message":`...), message(e))
	return append(b, '}')
}

// EncodeStreamError writes the exception that ends a stream.
func (Codec) EncodeStreamError(e *llm.Error) []byte {
	typ, ok := streamTypes[e.Kind]
	if !ok {
		typ = "internalServerException"
	}
	b := wire.AppendQuote([]byte(`{"`+typ+`":{"message":`), message(e))
	return sse.AppendEvent(nil, "", append(b, "}}"...))
}

// statuses are the HTTP statuses of the vendor that differ from the gateway's.
var statuses = map[llm.Kind]int{
	llm.Authentication: http.StatusForbidden,
	llm.Quota:          http.StatusBadRequest,
	llm.Timeout:        http.StatusRequestTimeout,
	llm.Upstream:       http.StatusFailedDependency,
	llm.UpstreamAuth:   http.StatusInternalServerError,
}

// ErrorStatus returns the HTTP status that the vendor uses for an error.
func (Codec) ErrorStatus(e *llm.Error) int {
	if status, ok := statuses[e.Kind]; ok && e.Status == 0 {
		return status
	}
	return e.HTTPStatus()
}
