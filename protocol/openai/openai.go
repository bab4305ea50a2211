// Package openai contains what OpenAI's two protocols share, Chat Completions and
// Responses.
package openai

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// errorTypes maps each error kind to OpenAI's type, and to the code that is sent where
// the error has none.
var errorTypes = map[llm.Kind]struct{ typ, code string }{
	llm.InvalidRequest:   {"invalid_request_error", ""},
	llm.Authentication:   {"invalid_request_error", "invalid_api_key"},
	llm.Permission:       {"permission_error", ""},
	llm.NotFound:         {"invalid_request_error", "not_found"},
	llm.MethodNotAllowed: {"invalid_request_error", "method_not_allowed"},
	llm.TooLarge:         {"invalid_request_error", "request_too_large"},
	llm.UnsupportedMedia: {"invalid_request_error", "unsupported_media_type"},
	llm.NotSupported:     {"invalid_request_error", "not_supported"},
	llm.RateLimit:        {"rate_limit_error", "rate_limit_exceeded"},
	llm.Quota:            {"insufficient_quota", "insufficient_quota"},
	llm.Overloaded:       {"server_error", "overloaded"},
	llm.Timeout:          {"server_error", "timeout"},
	llm.Upstream:         {"server_error", "upstream_error"},
	llm.UpstreamAuth:     {"server_error", "upstream_auth"},
	llm.Cancelled:        {"server_error", "client_closed_request"},
	llm.Internal:         {"server_error", "internal_error"},
}

// ErrorType returns an error's type and code on the wire.
func ErrorType(e *llm.Error) (typ, code string) {
	w, ok := errorTypes[e.Kind]
	if !ok {
		w = errorTypes[llm.Internal]
	}
	return w.typ, cmp.Or(e.Code, w.code)
}

// AppendError appends the error object, with all four members.
func AppendError(b []byte, e *llm.Error) []byte {
	typ, code := ErrorType(e)
	b = wire.AppendQuote(append(b, `{"message":`...), e.Message)
	b = wire.AppendQuote(append(b, `,"type":`...), typ)
	b = wire.AppendQuoteOrNull(append(b, `,"param":`...), e.Param)
	b = wire.AppendQuoteOrNull(append(b, `,"code":`...), code)
	return append(b, '}')
}

// EncodeError returns the error envelope.
func EncodeError(e *llm.Error) []byte { return append(AppendError([]byte(`{"error":`), e), '}') }

// maxUserID is the number of characters that the API accepts in the id of an end user.
const maxUserID = 64

// ShortID returns the id of an end user, or a hash of a longer id than the API accepts. path is its
// field of the neutral model.
func ShortID(id, path string, report *llm.Report) string {
	if utf8.RuneCountInString(id) <= maxUserID {
		return id
	}
	report.Approximate(path, "user.shortened", "a hash is sent, because the API accepts at most 64 characters")
	return llm.MintID("user_", id)
}

// Tier returns a response's service tier, or "" for a word that clients do not know, which it
// reports unless report is nil.
func Tier(tier string, report *llm.Report) string {
	switch tier {
	case "", "auto", "default", "flex", "scale", "priority", "fast", "ultrafast":
		return tier
	}
	if report != nil {
		report.Drop("tier", "tier.unsupported", "clients do not know the service tier "+tier)
	}
	return ""
}

// HasValue reports whether a member is there and not null, false or "": some servers
// write "error": null or "" into every response.
func HasValue(v jsontext.Value) bool {
	switch v.Kind() {
	case '{', '[', '0':
		return true
	case '"':
		return len(v) > len(`""`)
	}
	return false
}

// DescribesObject reports whether a schema describes a JSON object, as the arguments of
// a function require.
func DescribesObject(schema llm.Raw) bool {
	var s struct {
		Type jsontext.Value `json:"type"`
	}
	return schema == "" || json.Unmarshal([]byte(schema), &s, wire.Lenient) == nil &&
		(s.Type == nil || strings.Contains(string(s.Type), `"object"`))
}
