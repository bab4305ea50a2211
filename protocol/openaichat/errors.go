package openaichat

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// decodeError reads an error in a response with status 200. Servers put many shapes there:
// OpenAI's object, a bare string, a numeric code (ERR-03, ERR-04).
func decodeError(raw jsontext.Value) *llm.Error {
	f := wire.FindError(raw)
	e := &llm.Error{Relayed: true, Message: cmp.Or(f.Message, "the upstream reported an error without a message"), Code: cmp.Or(f.Code, f.Number), Param: f.Param}
	status := f.HTTPStatus()
	if status == 0 {
		e.Kind = kindOfWords(f.Type + " " + f.Code)
		return e
	}
	e.Kind, e.Status = codec.KindOfStatus(status)
	if tooLong(f.Type, "") { // llama.cpp reports it only in the type
		e.Code = llm.ContextLength
	}
	return e
}

// DecodeError reads an error response. Most servers use OpenAI's envelope; others
// send a message at the top level, a list of details or an HTML page.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e := decodeError(bytes.TrimSpace(body))
	switch kind, own := codec.KindOfStatus(status); {
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
	codec.CloudError(e, header, body)
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
