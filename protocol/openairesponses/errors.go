package openairesponses

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeError decodes an error response of any shape.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e := errorOf(wire.FindError(bytes.TrimSpace(body)), status)
	if e.Message == "" {
		e.Message = "the upstream returned status " + strconv.Itoa(status) + " and no message"
		e.Relayed = false
	}
	codec.CloudError(e, header, body)
	return e
}

// inBand decodes an error inside a response with status 200.
func inBand(raw jsontext.Value) *llm.Error {
	f := wire.FindError(raw)
	e := errorOf(f, cmp.Or(f.HTTPStatus(), http.StatusBadGateway)) // some servers name the status, ERR-03
	if e.Message == "" {
		e.Message = "the upstream reported an error without a message"
	}
	return e
}

// errorOf returns the error with the kind that its words and the status imply.
func errorOf(f wire.FoundError, status int) *llm.Error {
	e := &llm.Error{Code: f.Code, Param: f.Param, Message: f.Message, Relayed: f.Message != ""}
	e.Kind, e.Status = codec.KindOfStatus(status)
	words := strings.ToLower(f.Type + " " + f.Code)
	switch {
	case contextLength(words) || status < 500 && contextLength(strings.ToLower(f.Message)): // ERR-18
		e.Kind, e.Status, e.Code = llm.InvalidRequest, 0, llm.ContextLength
	case strings.Contains(words, "insufficient_quota"):
		e.Kind, e.Status = llm.Quota, 0
	case (status == http.StatusBadRequest || status == http.StatusForbidden) && (strings.Contains(words, "invalid_api_key") || strings.Contains(words, "authentication")):
		e.Kind, e.Status = llm.UpstreamAuth, 0 // some servers reject a credential without status 401
	case status >= http.StatusInternalServerError:
		if kind, ok := kindOfWords(words); ok {
			e.Kind, e.Status = kind, 0
		}
	}
	return e
}

func contextLength(words string) bool {
	return strings.Contains(words, "context_length") || strings.Contains(words, "exceed_context") ||
		strings.Contains(words, "maximum context length") || strings.Contains(words, "exceeds the context window")
}

// kindOfWords derives the kind from an error's type and code, for errors without
// a status.
func kindOfWords(words string) (llm.Kind, bool) {
	for _, k := range []struct {
		word string
		kind llm.Kind
	}{
		{"rate_limit", llm.RateLimit}, {"overloaded", llm.Overloaded}, {"unavailable", llm.Overloaded},
		{"invalid_api_key", llm.UpstreamAuth}, {"authentication", llm.UpstreamAuth}, {"timeout", llm.Timeout},
		{"invalid_request", llm.InvalidRequest}, {"invalid_prompt", llm.InvalidRequest}, {"invalid_image", llm.InvalidRequest},
		{"invalid_encrypted_content", llm.InvalidRequest}, {"policy", llm.InvalidRequest},
	} {
		if strings.Contains(words, k.word) {
			return k.kind, true
		}
	}
	return "", false
}

// ErrorStatus returns the error's HTTP status.
func (Codec) ErrorStatus(e *llm.Error) int { return e.HTTPStatus() }

// EncodeError writes OpenAI's error envelope.
func (Codec) EncodeError(e *llm.Error) []byte { return openai.EncodeError(e) }

// EncodeStreamError writes the end of a failed stream whose events this package did not
// encode. Agents wait for response.failed and report a mere disconnect without it (RSP-04); at
// a member "error" the vendor's SDKs raise. The response's own id is not known here.
func (Codec) EncodeStreamError(e *llm.Error) []byte {
	return encodeFailed(e, llm.MintID("resp_", e.Message), 0)
}

// encodeFailed writes the last event of a response that failed.
func encodeFailed(e *llm.Error, id string, number int64) []byte {
	s := newStreamEncoder(nil)
	s.id, s.seq = id, number
	return withError(s.terminal(outcome{status: "failed", err: e}, nil), e)
}
