package gemini

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestDecodeError(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   llm.Error
	}{
		"rate limit": {429, nil, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.6s"}]}}`,
			llm.Error{Kind: llm.RateLimit, Message: "slow", RetryAfter: 35 * time.Second}}, // ERR-11
		"header first":  {429, http.Header{"Retry-After": {"7"}}, `{"error":{"message":"slow"}}`, llm.Error{Kind: llm.RateLimit, Message: "slow", RetryAfter: 7 * time.Second}},
		"milliseconds":  {429, http.Header{"Retry-After-Ms": {"1500"}}, `{}`, llm.Error{Kind: llm.RateLimit, Message: "the upstream returned status 429 and no message", RetryAfter: 1500 * time.Millisecond}},
		"array":         {400, nil, ` [{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`, llm.Error{Kind: llm.InvalidRequest, Status: 400, Message: "bad"}}, // GEM-21
		"bad key":       {400, nil, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, llm.Error{Kind: llm.UpstreamAuth, Code: "API_KEY_INVALID", Message: "API key not valid."}},
		"too long":      {400, nil, `{"error":{"message":"The input token count (5) exceeds the maximum number of tokens allowed (4)."}}`, llm.Error{Kind: llm.InvalidRequest, Status: 400, Code: "context_length_exceeded", Message: "The input token count (5) exceeds the maximum number of tokens allowed (4)."}},
		"a string":      {500, nil, `{"error":"text"}`, llm.Error{Kind: llm.Upstream, Message: "text"}}, // ERR-04
		"a list":        {422, nil, `{"detail":[{"msg":"field required"}]}`, llm.Error{Kind: llm.InvalidRequest, Status: 422, Message: "field required"}},
		"errors":        {503, nil, `{"errors":[{"message":"m","code":"c"}]}`, llm.Error{Kind: llm.Overloaded, Message: "m", Code: "c"}},
		"in a message":  {529, nil, `{"error":{"message":"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"}}`, llm.Error{Kind: llm.Overloaded, Message: "Overloaded", Code: "overloaded_error"}}, // ERR-17
		"a page":        {502, nil, `<html>bad gateway 10.0.0.1</html>`, llm.Error{Kind: llm.Upstream, Message: "the upstream returned status 502 and no message"}},                                                                        // ERR-13
		"nothing":       {504, nil, ``, llm.Error{Kind: llm.Timeout, Message: "the upstream returned status 504 and no message"}},
		"unauthorized":  {401, nil, `{"error":{"message":"m","status":"UNAUTHENTICATED"}}`, llm.Error{Kind: llm.UpstreamAuth, Message: "m"}}, // ERR-15
		"forbidden":     {403, nil, `{"error":{"message":"m"}}`, llm.Error{Kind: llm.Permission, Message: "m"}},
		"no such model": {404, nil, `{"error":{"message":"m"}}`, llm.Error{Kind: llm.NotFound, Message: "m"}},
		"unpaid":        {402, nil, `{"error":{"message":"m"}}`, llm.Error{Kind: llm.Quota, Message: "m"}},
	} {
		c.want.Relayed = true
		if got := (Codec{}).DecodeError(c.status, c.header, []byte(c.body)); *got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, *got, c.want)
		}
	}
}

func TestEncodeError(t *testing.T) {
	for kind, want := range map[llm.Kind]string{
		llm.InvalidRequest: `{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}`,
		llm.Authentication: `{"error":{"code":401,"message":"m","status":"UNAUTHENTICATED"}}`,
		llm.Permission:     `{"error":{"code":403,"message":"m","status":"PERMISSION_DENIED"}}`,
		llm.NotFound:       `{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}`,
		llm.TooLarge:       `{"error":{"code":413,"message":"m","status":"INVALID_ARGUMENT"}}`,
		llm.RateLimit:      `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`,
		llm.Quota:          `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"insufficient_quota"}]}}`,
		llm.Overloaded:     `{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`,
		llm.Timeout:        `{"error":{"code":504,"message":"m","status":"DEADLINE_EXCEEDED"}}`,
		llm.Upstream:       `{"error":{"code":502,"message":"m","status":"INTERNAL"}}`,
		llm.UpstreamAuth:   `{"error":{"code":502,"message":"m","status":"INTERNAL"}}`,
		llm.Internal:       `{"error":{"code":500,"message":"m","status":"INTERNAL"}}`,
		"novelty":          `{"error":{"code":500,"message":"m","status":"INTERNAL"}}`,
	} {
		e := &llm.Error{Kind: kind, Message: "m"}
		if got := string(Codec{}.EncodeError(e)); got != want {
			t.Errorf("%s: %s", kind, got)
		}
		if got := string(Codec{}.EncodeStreamError(e)); got != "data: "+want+"\n\n" {
			t.Errorf("%s: %s", kind, got)
		}
	}
	full := &llm.Error{Kind: llm.RateLimit, Code: "c", Param: "p", Message: "a\n\"b\"", RetryAfter: 1500 * time.Millisecond}
	if got := Codec.EncodeError(Codec{}, full); !jsontext.Value(got).IsValid() || !strings.Contains(string(got), `"retryDelay":"2s"`) {
		t.Errorf("%s", got)
	}
}
