package anthropic

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// statusOverloaded is the vendor's own number.
const statusOverloaded = 529

// tooLong is the vendor's wording for a prompt that is too long, by which agents decide
// to shorten it. ERR-18
const tooLong = "prompt is too long"

// DecodeError reads an upstream's error answer, whatever its shape.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e := decodeErrorBody(status, body)
	e.RetryAfter = protocol.RetryAfter(header)
	return e
}

// errorWords is what there is to be found in an error.
type errorWords struct{ typ, code, param, message string }

// decodeErrorBody reads an error object. The status is 0 for one that came inside a
// good answer or a stream.
func decodeErrorBody(status int, body []byte) *llm.Error {
	var w errorWords
	w.find(body, 0)
	e := &llm.Error{Message: w.message, Code: w.code, Param: w.param, Relayed: w.message != ""}
	if n, err := strconv.Atoi(w.code); err == nil { // a status in place of a code, ERR-03
		if e.Code = ""; status == 0 {
			status = n
		}
	}
	e.Kind = kindOf(status, w.typ+" "+e.Code)
	if e.Kind == llm.InvalidRequest && status >= 400 {
		e.Status = status
	}
	if e.Kind == llm.InvalidRequest && overflows(w) {
		e.Code, e.Status = llm.ContextLength, 0
	}
	if e.Message == "" {
		e.Message = "the upstream reported an error without a message"
		if text := http.StatusText(status); text != "" {
			e.Message = "the upstream answered with status " + strconv.Itoa(status) + " (" + text + ")"
		}
	}
	return e
}

// overflows recognises a prompt that is too long, in the vendor's words and in those of
// engines that speak its protocol. ERR-18
func overflows(w errorWords) bool {
	message := strings.ToLower(w.message)
	return strings.Contains(message, tooLong) || strings.Contains(message, "context length") ||
		strings.Contains(w.typ, "exceed_context") || w.code == llm.ContextLength
}

// OverflowWords are those by which clients know that a prompt is too long.
func (Codec) OverflowWords() string { return tooLong }

// maxErrorDepth bounds the search for a message: an error may be the text of an
// error, ERR-17.
const maxErrorDepth = 6

// find looks for the parts of an error in any of the shapes that servers use.
// ERR-03, ERR-04
func (w *errorWords) find(raw wire.Raw, depth int) {
	if depth > maxErrorDepth {
		return
	}
	switch raw.Kind() {
	case '[':
		if items := arrayItems(raw); len(items) > 0 {
			w.find(items[0], depth+1)
		}
	case '"':
		var text string
		if json.Unmarshal(raw, &text, lenient) != nil {
			return
		}
		if inner := wire.Raw(strings.TrimSpace(text)); inner.Kind() == '{' && inner.IsValid(lenient) {
			w.find(inner, depth+1)
		} else if w.message == "" && text != "" {
			w.message = text
		}
	case '{':
		var o struct {
			Error   jsontext.Value `json:"error"`
			Errors  jsontext.Value `json:"errors"`
			Detail  jsontext.Value `json:"detail"`
			Details jsontext.Value `json:"details"`
			Message jsontext.Value `json:"message"`
			Msg     jsontext.Value `json:"msg"`
			Type    jsontext.Value `json:"type"`
			Code    jsontext.Value `json:"code"`
			Param   jsontext.Value `json:"param"`
		}
		if json.Unmarshal(raw, &o, lenient) != nil {
			return
		}
		var named struct {
			Code jsontext.Value `json:"error_code"`
		}
		_ = json.Unmarshal(o.Details, &named, lenient) // details may be anything
		set(&w.code, named.Code)
		w.find(o.Error, depth+1)
		set(&w.code, o.Code)
		set(&w.param, o.Param)
		if t := scalar(o.Type); w.typ == "" && t != "error" {
			w.typ = t
		}
		for _, v := range []jsontext.Value{o.Message, o.Errors, o.Detail, o.Msg} {
			w.find(v, depth+1)
		}
	default: // numbers and the like say nothing
	}
}

func set(to *string, v jsontext.Value) {
	if *to == "" {
		*to = scalar(v)
	}
}

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

// kindWords are the words of types and codes that tell a kind, the telling ones
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

// kindOf sorts an error by its status, and by its words where there is none or
// where they say more.
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
	case status == http.StatusUnauthorized, byWords == llm.UpstreamAuth && (status == http.StatusBadRequest || status == http.StatusForbidden):
		return llm.UpstreamAuth
	case status == http.StatusPaymentRequired:
		return llm.Quota
	case status == http.StatusForbidden:
		return llm.Permission
	case status == http.StatusNotFound:
		return llm.NotFound
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return llm.Timeout
	case status == http.StatusRequestEntityTooLarge:
		return llm.TooLarge
	case status == http.StatusTooManyRequests:
		return llm.RateLimit
	case status == http.StatusServiceUnavailable, status == statusOverloaded:
		return llm.Overloaded
	case status >= 400 && status < 500:
		return llm.InvalidRequest
	}
	return llm.Upstream
}

// isError reports whether a body is an error object.
func isError(typ string, err wire.Raw) bool {
	k := err.Kind()
	return typ == "error" || k == '{' || k == '"' && len(err) > len(`""`)
}

func badAnswer(what string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: what, Cause: cause}
}

// kindTypes are the types of error that the vendor has for the kinds.
var kindTypes = map[llm.Kind]string{
	llm.InvalidRequest:   "invalid_request_error",
	llm.Authentication:   "authentication_error",
	llm.Permission:       "permission_error",
	llm.NotFound:         "not_found_error",
	llm.MethodNotAllowed: "invalid_request_error",
	llm.TooLarge:         "request_too_large",
	llm.UnsupportedMedia: "invalid_request_error",
	llm.RateLimit:        "rate_limit_error",
	llm.Quota:            "billing_error",
	llm.Overloaded:       "overloaded_error",
	llm.Timeout:          "timeout_error",
}

// EncodeError writes the vendor's error envelope. Its SDKs branch on the code in
// details, which other clients ignore.
func (Codec) EncodeError(e *llm.Error) []byte {
	typ, ok := kindTypes[e.Kind]
	if !ok {
		typ = "api_error"
	}
	message := e.Message
	if e.Code == llm.ContextLength && !strings.Contains(strings.ToLower(message), tooLong) {
		message = tooLong + ": " + message
	}
	b := appendString([]byte(`{"type":"error","error":{"type":`), typ)
	b = appendString(append(b, `,"message":`...), message)
	if e.Code != "" {
		b = appendString(append(b, `,"details":{"error_code":`...), e.Code)
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// EncodeStreamError writes the event that ends a stream which has already begun.
// No message_stop follows it.
func (c Codec) EncodeStreamError(e *llm.Error) []byte {
	return sse.AppendEvent(nil, "error", c.EncodeError(e))
}

// ErrorStatus is the HTTP status that the vendor has for an error.
func (Codec) ErrorStatus(e *llm.Error) int {
	switch {
	case e.Status != 0:
		return e.Status
	case e.Kind == llm.Overloaded:
		return statusOverloaded
	case e.Kind == llm.Quota:
		return http.StatusPaymentRequired
	}
	return e.HTTPStatus()
}
