package gemini

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// DecodeError decodes an error response of any shape.
func (Codec) DecodeError(status int, header http.Header, body []byte) *llm.Error {
	e, _ := readError(body)
	e.Kind, e.Status = codec.KindOfStatus(status)
	refine(e)
	if e.Message == "" {
		e.Message = "the upstream returned status " + strconv.Itoa(status) + " and no message"
	}
	if wait := codec.RetryAfter(header); wait > 0 {
		e.RetryAfter = wait
	}
	return e
}

// errorIn decodes the error member of a response with status 200.
func errorIn(raw jsontext.Value) *llm.Error {
	e, status := readError(raw)
	if status != 0 {
		e.Kind, e.Status = codec.KindOfStatus(status)
	} else if k, ok := statusKinds[e.Code]; ok {
		e.Kind = k
	}
	refine(e)
	if e.Message == "" {
		e.Message = "the upstream reported an error without a message"
	}
	return e
}

// readError returns the error in a body, and the status that the body names. Google puts the
// errors of streams into an array (GEM-21).
func readError(body []byte) (e *llm.Error, status int) {
	f := wire.FindError(body)
	e = &llm.Error{Kind: llm.Upstream, Relayed: true, Message: f.Message, Param: f.Param, Code: cmp.Or(f.Reason, f.Status, f.Type, f.Code)}
	if wait, err := time.ParseDuration(f.Delay); err == nil && wait > 0 {
		e.RetryAfter = wholeSeconds(wait)
	}
	return e, f.HTTPStatus()
}

func wholeSeconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// statusKinds maps Google's status words to kinds, for errors without a number.
var statusKinds = map[string]llm.Kind{
	"INVALID_ARGUMENT": llm.InvalidRequest, "FAILED_PRECONDITION": llm.InvalidRequest, "OUT_OF_RANGE": llm.InvalidRequest,
	"UNAUTHENTICATED": llm.UpstreamAuth, "PERMISSION_DENIED": llm.Permission, "NOT_FOUND": llm.NotFound,
	"RESOURCE_EXHAUSTED": llm.RateLimit, "UNAVAILABLE": llm.Overloaded, "DEADLINE_EXCEEDED": llm.Timeout,
}

// refine derives the kind from the message where the status is too general.
// Google's status word says no more than the kind, so it is not passed on as a
// code.
func refine(e *llm.Error) {
	if statusWord(e.Code) {
		e.Code = ""
	}
	message := strings.ToLower(e.Message)
	switch {
	case e.Code == "API_KEY_INVALID", strings.Contains(message, "api key not valid"):
		e.Kind, e.Status = llm.UpstreamAuth, 0 // Google rejects a bad key with 400
	case e.Kind == llm.InvalidRequest && (strings.Contains(message, tooLong) ||
		strings.Contains(message, "context length") || strings.Contains(message, "context_length") ||
		strings.Contains(message, "prompt is too long")):
		e.Code = llm.ContextLength
	case strings.Contains(e.Code, quotaCode):
		e.Kind, e.Status = llm.Quota, 0
	}
}

// tooLong is Google's message for a prompt that exceeds the context window.
// Agents look for it to shorten the prompt. ERR-18
const tooLong = "exceeds the maximum number of tokens"

// quotaCode is the code of an exhausted quota, which a retry does not help.
const quotaCode = "insufficient_quota"

func statusWord(code string) bool {
	if _, ok := statusKinds[code]; ok {
		return true
	}
	return slices.Contains([]string{"INTERNAL", "UNKNOWN", "UNIMPLEMENTED", "ABORTED", "ALREADY_EXISTS", "CANCELLED", "DATA_LOSS"}, code)
}

// wireErrors maps error kinds to Google's status words.
var wireErrors = map[llm.Kind]string{
	llm.InvalidRequest:   "INVALID_ARGUMENT",
	llm.Authentication:   "UNAUTHENTICATED",
	llm.Permission:       "PERMISSION_DENIED",
	llm.NotFound:         "NOT_FOUND",
	llm.MethodNotAllowed: "UNIMPLEMENTED",
	llm.TooLarge:         "INVALID_ARGUMENT",
	llm.UnsupportedMedia: "INVALID_ARGUMENT",
	llm.NotSupported:     "UNIMPLEMENTED",
	llm.RateLimit:        "RESOURCE_EXHAUSTED",
	llm.Quota:            "RESOURCE_EXHAUSTED",
	llm.Overloaded:       "UNAVAILABLE",
	llm.Timeout:          "DEADLINE_EXCEEDED",
	llm.Cancelled:        "CANCELLED",
}

// ErrorStatus returns the error's own status, or its kind's.
func (Codec) ErrorStatus(e *llm.Error) int { return e.HTTPStatus() }

// EncodeError writes Google's error envelope. The code, the parameter and the
// retry delay are among its details.
func (c Codec) EncodeError(e *llm.Error) []byte {
	word, ok := wireErrors[e.Kind]
	if !ok {
		word = "INTERNAL"
	}
	message := e.Message
	if e.Code == llm.ContextLength && !strings.Contains(message, tooLong) {
		message = "The input token count " + tooLong + " allowed: " + message
	}
	b := strconv.AppendInt([]byte(`{"error":{"code":`), int64(c.ErrorStatus(e)), 10)
	b = wire.AppendQuote(append(b, `,"message":`...), message)
	b = wire.AppendQuote(append(b, `,"status":`...), word)
	code := e.Code
	if code == "" && e.Kind == llm.Quota {
		code = quotaCode // the status word is that of a rate limit
	}
	var details [][]byte
	if code != "" {
		d := wire.AppendQuote([]byte(`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`), code)
		details = append(details, append(d, '}'))
	}
	if e.Param != "" {
		d := wire.AppendQuote([]byte(`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":`), e.Param)
		details = append(details, append(d, "}]}"...))
	}
	if e.RetryAfter > 0 {
		d := strconv.AppendInt([]byte(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`), int64(wholeSeconds(e.RetryAfter)/time.Second), 10)
		details = append(details, append(d, `s"}`...))
	}
	if len(details) > 0 {
		b = append(b, `,"details":[`...)
		b = append(b, bytes.Join(details, []byte(","))...)
		b = append(b, ']')
	}
	return append(b, "}}"...)
}

// EncodeStreamError writes the event that ends a stream with an error.
func (c Codec) EncodeStreamError(e *llm.Error) []byte {
	return sse.AppendEvent(nil, "", c.EncodeError(e))
}
