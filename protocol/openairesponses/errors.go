package openairesponses

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// errorBody holds the members in which servers put errors: OpenAI's envelope,
// FastAPI's detail, a bare message, a list (ERR-04).
type errorBody struct {
	Error   jsontext.Value `json:"error"`
	Errors  jsontext.Value `json:"errors"`
	Detail  jsontext.Value `json:"detail"`
	Message jsontext.Value `json:"message"`
	Msg     jsontext.Value `json:"msg"`
	Type    jsontext.Value `json:"type"`
	Param   jsontext.Value `json:"param"`
	Code    jsontext.Value `json:"code"`
}

// errorParts holds the parts of an error that were found.
type errorParts struct{ message, typ, code, param string }

// DecodeError decodes an error response of any shape.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	s := readError(bytes.TrimSpace(body), 0)
	e := s.classified(status)
	if e.Message == "" {
		e.Message = "the upstream returned status " + strconv.Itoa(status) + " and no message"
		e.Relayed = false
	}
	protocol.CloudError(e, header, body)
	return e
}

// inBand decodes an error inside a response with status 200.
func inBand(raw jsontext.Value) *llm.Error {
	s := readError(raw, 0)
	status, err := strconv.Atoi(s.code) // some servers put the status there, ERR-03
	if err != nil || status < 400 {
		status = http.StatusBadGateway
	}
	e := s.classified(status)
	if e.Message == "" {
		e.Message = "the upstream reported an error without a message"
	}
	return e
}

// maxErrorDepth limits how deep an error is searched for inside another error.
const maxErrorDepth = 8

// readError finds the most specific message, type and code in an error body. A
// body that is not JSON has none: a proxy's HTML page is not shown to clients
// (ERR-13).
func readError(body []byte, depth int) (s errorParts) {
	v := jsontext.Value(body)
	switch v.Kind() {
	case '"':
		s.message = wire.Scalar(v)
		if inner := jsontext.Value(s.message); depth < maxErrorDepth && inner.Kind() == '{' && inner.IsValid() { // ERR-17
			if unwrapped := readError(inner, depth+1); unwrapped.message != "" {
				return unwrapped
			}
		}
	case '[':
		var l []jsontext.Value
		if json.Unmarshal(body, &l, wire.Lenient) == nil && len(l) > 0 && depth < maxErrorDepth {
			return readError(l[0], depth+1)
		}
	case '{':
		var b errorBody
		if json.Unmarshal(body, &b, wire.Lenient) != nil {
			return s
		}
		s = errorParts{typ: wire.Scalar(b.Type), code: wire.Scalar(b.Code), param: wire.Scalar(b.Param)}
		for _, from := range []jsontext.Value{b.Error, b.Message, b.Detail, b.Errors, b.Msg} {
			if s.message == "" && depth < maxErrorDepth && openai.HasValue(from) {
				s.fill(readError(from, depth+1))
			}
		}
	default:
	}
	return s
}

// fill takes over the parts of an inner error, which is more specific.
func (s *errorParts) fill(inner errorParts) {
	s.message = inner.message
	s.typ, s.code, s.param = cmp.Or(inner.typ, s.typ), cmp.Or(inner.code, s.code), cmp.Or(inner.param, s.param)
}

// classified returns the error with the kind that its words and the status imply.
func (s errorParts) classified(status int) *llm.Error {
	e := &llm.Error{Code: s.code, Param: s.param, Message: s.message, Relayed: s.message != ""}
	if _, err := strconv.Atoi(e.Code); err == nil {
		e.Code = "" // it only repeats the status
	}
	e.Kind, e.Status = protocol.KindOfStatus(status)
	words := strings.ToLower(s.typ + " " + s.code)
	switch {
	case contextLength(words) || status < 500 && contextLength(strings.ToLower(s.message)): // ERR-18
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

// EncodeStreamError writes the end of a stream that has failed and that this
// package has not written. Agents wait for response.failed and report a mere
// disconnect without it (RSP-04); at a member "error" the vendor's SDKs raise. The
// response's own id is not known here.
func (Codec) EncodeStreamError(e *llm.Error) []byte {
	return encodeFailed(e, llm.MintID("resp_", e.Message), 0)
}

// encodeFailed writes the last event of a response that failed.
func encodeFailed(e *llm.Error, id string, number int64) []byte {
	s := newStreamEncoder(nil)
	s.id, s.seq = id, number
	return withError(s.terminal(outcome{status: "failed", err: e}, nil), e)
}
