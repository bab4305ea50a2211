package openairesponses

import (
	"net/http"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestDecodeError(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   llm.Error
	}{
		{"the envelope", 400, `{"error":{"message":"m","type":"invalid_request_error","param":"input[0]","code":"bad"}}`,
			llm.Error{Kind: llm.InvalidRequest, Status: 400, Code: "bad", Param: "input[0]", Message: "m", Relayed: true}},
		{"ERR-03: a code that is the status", 422, `{"error":{"message":"m","code":422}}`,
			llm.Error{Kind: llm.InvalidRequest, Status: 422, Message: "m", Relayed: true}},
		{"ERR-17: an error inside the message", 500, `{"error":{"message":"{\"error\":{\"type\":\"overloaded_error\",\"message\":\"inner\"}}"}}`,
			llm.Error{Kind: llm.Overloaded, Message: "inner", Relayed: true}},
		{"ERR-18: the context is too long, by its code", 400, `{"error":{"message":"m","code":"context_length_exceeded"}}`,
			llm.Error{Kind: llm.InvalidRequest, Code: "context_length_exceeded", Message: "m", Relayed: true}},
		{"ERR-18: and by its words", 400, `{"error":{"message":"This model's maximum context length is 9 tokens","code":null}}`,
			llm.Error{Kind: llm.InvalidRequest, Code: "context_length_exceeded", Message: "This model's maximum context length is 9 tokens", Relayed: true}},
		{"quota is not a matter of time", 429, `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`,
			llm.Error{Kind: llm.Quota, Code: "insufficient_quota", Message: "m", Relayed: true}},
		{"RSP-13: reasoning of another account", 400, `{"error":{"message":"m","code":"invalid_encrypted_content"}}`,
			llm.Error{Kind: llm.InvalidRequest, Status: 400, Code: "invalid_encrypted_content", Message: "m", Relayed: true}},
		{"ERR-13: a page of a proxy", 502, `<html>nginx</html>`,
			llm.Error{Kind: llm.Upstream, Message: "the upstream returned status 502 and no message"}},
	} {
		if got := (Codec{}).DecodeError(tc.status, nil, []byte(tc.body)); *got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, *got, tc.want)
		}
	}
	h := http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}
	if got := (Codec{}).DecodeError(429, h, nil).RetryAfter; got != 1500*time.Millisecond {
		t.Errorf("retry after %v", got)
	}
}
