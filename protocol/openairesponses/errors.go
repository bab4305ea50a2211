package openairesponses

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// errorBody is where servers put what went wrong: OpenAI's envelope, FastAPI's
// detail, a bare message, a list (ERR-04).
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

// said is what an error body says.
type said struct{ message, typ, code, param string }

// DecodeError reads an upstream's error answer, whatever its shape.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	s := readError(bytes.TrimSpace(body), 0)
	e := s.sorted(status)
	if e.Message == "" {
		e.Message = "the upstream answered with status " + strconv.Itoa(status) + " and no message"
		e.Relayed = false
	}
	e.RetryAfter = protocol.RetryAfter(header)
	return e
}

// inBand sorts an error that came inside an answer with a good status.
func inBand(raw jsontext.Value) *llm.Error {
	s := readError(raw, 0)
	status, err := strconv.Atoi(s.code) // some put the status there, ERR-03
	if err != nil || status < 400 {
		status = http.StatusBadGateway
	}
	e := s.sorted(status)
	if e.Message == "" {
		e.Message = "the upstream reported an error without a message"
	}
	return e
}

// maxErrorDepth bounds how deep an error is looked for inside an error.
const maxErrorDepth = 8

// readError finds the best message, type and code in an error body. What is not
// JSON has none: an HTML page of a proxy is not for clients (ERR-13).
func readError(body []byte, depth int) (s said) {
	v := jsontext.Value(body)
	switch v.Kind() {
	case '"':
		s.message = scalar(v)
		if inner := jsontext.Value(s.message); depth < maxErrorDepth && inner.Kind() == '{' && inner.IsValid() { // ERR-17
			if unwrapped := readError(inner, depth+1); unwrapped.message != "" {
				return unwrapped
			}
		}
	case '[':
		var l []jsontext.Value
		if json.Unmarshal(body, &l, lenient) == nil && len(l) > 0 && depth < maxErrorDepth {
			return readError(l[0], depth+1)
		}
	case '{':
		var b errorBody
		if json.Unmarshal(body, &b, lenient) != nil {
			return s
		}
		s = said{typ: scalar(b.Type), code: scalar(b.Code), param: scalar(b.Param)}
		for _, from := range []jsontext.Value{b.Error, b.Message, b.Detail, b.Errors, b.Msg} {
			if s.message == "" && depth < maxErrorDepth && present(from) {
				s.fill(readError(from, depth+1))
			}
		}
	default:
	}
	return s
}

// fill takes over what an inner error says; it is the more telling one.
func (s *said) fill(inner said) {
	s.message = inner.message
	s.typ, s.code, s.param = orElse(inner.typ, s.typ), orElse(inner.code, s.code), orElse(inner.param, s.param)
}

// sorted is the error that the words amount to with a status.
func (s said) sorted(status int) *llm.Error {
	e := &llm.Error{Code: s.code, Param: s.param, Message: s.message, Relayed: s.message != ""}
	if _, err := strconv.Atoi(e.Code); err == nil {
		e.Code = "" // it is the status once more
	}
	e.Kind, e.Status = kindOfStatus(status)
	words := strings.ToLower(s.typ + " " + s.code)
	switch {
	case contextLength(words) || status < 500 && contextLength(strings.ToLower(s.message)): // ERR-18
		e.Kind, e.Status, e.Code = llm.InvalidRequest, 0, llm.ContextLength
	case strings.Contains(words, "insufficient_quota"):
		e.Kind, e.Status = llm.Quota, 0
	case (status == http.StatusBadRequest || status == http.StatusForbidden) && (strings.Contains(words, "invalid_api_key") || strings.Contains(words, "authentication")):
		e.Kind, e.Status = llm.UpstreamAuth, 0 // some do not say it with 401
	case status >= http.StatusInternalServerError:
		if kind, ok := kindOfWords(words); ok {
			e.Kind, e.Status = kind, 0
		}
	}
	return e
}

// OverflowWords are those by which clients know that a prompt is too long.
func (Codec) OverflowWords() string { return llm.ContextLength }

func contextLength(words string) bool {
	return strings.Contains(words, "context_length") || strings.Contains(words, "exceed_context") ||
		strings.Contains(words, "maximum context length") || strings.Contains(words, "exceeds the context window")
}

// kindOfStatus sorts an HTTP status. A status of 4xx that has no kind is kept.
func kindOfStatus(status int) (llm.Kind, int) {
	switch status {
	case http.StatusUnauthorized:
		return llm.UpstreamAuth, 0
	case http.StatusPaymentRequired:
		return llm.Quota, 0
	case http.StatusForbidden:
		return llm.Permission, 0
	case http.StatusNotFound:
		return llm.NotFound, 0
	case http.StatusRequestEntityTooLarge:
		return llm.TooLarge, 0
	case http.StatusTooManyRequests:
		return llm.RateLimit, 0
	case http.StatusServiceUnavailable, 529:
		return llm.Overloaded, 0
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return llm.Timeout, 0
	}
	if status >= 400 && status < 500 {
		return llm.InvalidRequest, status
	}
	return llm.Upstream, 0
}

// kindOfWords sorts an error by its type and code, where the status says nothing.
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

// wireError is an error's type and code on the wire.
func wireError(e *llm.Error) (typ, code string) {
	w, ok := kindWire[e.Kind]
	if !ok {
		w = kindWire[llm.Internal]
	}
	return w.typ, orElse(e.Code, w.code)
}

// ErrorStatus is the error's own status.
func (Codec) ErrorStatus(e *llm.Error) int { return e.HTTPStatus() }

// EncodeError writes OpenAI's error envelope, with all four members.
func (Codec) EncodeError(e *llm.Error) []byte {
	return append(appendErrorObject([]byte(`{"error":`), e), '}')
}

func appendErrorObject(b []byte, e *llm.Error) []byte {
	typ, code := wireError(e)
	b = appendString(append(b, `{"message":`...), e.Message)
	b = appendString(append(b, `,"type":`...), typ)
	b = appendNullable(append(b, `,"param":`...), e.Param)
	b = appendNullable(append(b, `,"code":`...), code)
	return append(b, '}')
}

// EncodeStreamError writes the end of a stream that has failed and that this
// package has not written. Agents wait for response.failed and report a mere
// disconnect without it (RSP-04); at a member "error" the vendor's SDKs raise. The
// response's own id is not known here.
func (Codec) EncodeStreamError(e *llm.Error) []byte {
	return encodeFailed(e, llm.MintID("resp_", e.Message), 0)
}

// encodeFailed writes the last event of a response that has failed.
func encodeFailed(e *llm.Error, id string, number int64) []byte {
	s := newStreamEncoder(nil)
	s.id, s.seq = id, number
	return withError(s.terminal(outcome{status: "failed", err: e}, nil), e)
}
