package anthropic

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		about  string
		status int
		body   string
		want   llm.Error
	}{
		{"ERR-10, VER-24: the vendor's own, with its code", 429,
			`{"type":"error","error":{"type":"rate_limit_error","message":"slow down","details":{"error_code":"ramp_limit_exceeded"}},"request_id":"req_1"}`,
			llm.Error{Kind: llm.RateLimit, Code: "ramp_limit_exceeded", Message: "slow down", Relayed: true}},
		{"VER-26: a limit that waiting does not lift", 429,
			`{"type":"error","error":{"type":"rate_limit_error","message":"spent","details":{"error_code":"enforced_spend_limit_reached"}}}`,
			llm.Error{Kind: llm.Quota, Code: "enforced_spend_limit_reached", Message: "spent", Relayed: true}},
		{"ERR-18", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200001 tokens > 200000 maximum"}}`,
			llm.Error{Kind: llm.InvalidRequest, Code: llm.ContextLength, Message: "prompt is too long: 200001 tokens > 200000 maximum", Relayed: true}},
		{"ERR-17: an error inside the message of an error", 400,
			`{"error":{"code":400,"message":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"max_tokens: too big\"}}","status":"INVALID_ARGUMENT"}}`,
			llm.Error{Kind: llm.InvalidRequest, Status: 400, Message: "max_tokens: too big", Relayed: true}},
		{"ERR-13", 502, `<html><body>502 Bad Gateway</body></html>`,
			llm.Error{Kind: llm.Upstream, Message: "the upstream returned status 502 (Bad Gateway)"}},
		{"ERR-15", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`,
			llm.Error{Kind: llm.UpstreamAuth, Message: "invalid x-api-key", Relayed: true}},
		{"ERR-12", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			llm.Error{Kind: llm.Overloaded, Message: "Overloaded", Relayed: true}},
		{"the type says more than a wrong status", 400, `{"type":"error","error":{"type":"billing_error","message":"pay"}}`,
			llm.Error{Kind: llm.Quota, Message: "pay", Relayed: true}},
	} {
		header := http.Header{}
		header.Set("retry-after-ms", "1500")
		c.want.RetryAfter = 1500 * time.Millisecond
		if got := (Codec{}).DecodeError(c.status, header, []byte(c.body)); *got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.about, *got, c.want)
		}
	}
}

func TestDecodeErrorEndsOnDeepNesting(t *testing.T) {
	body := strings.Repeat(`{"error":`, 1000) + `"deep"` + strings.Repeat("}", 1000)
	if e := (Codec{}).DecodeError(500, nil, []byte(body)); e.Kind != llm.Upstream || e.Message == "" {
		t.Errorf("%+v", e)
	}
}

// TestEncodeError holds appendix C.
func TestEncodeError(t *testing.T) {
	for _, c := range []struct {
		err    llm.Error
		status int
		want   string
	}{
		{llm.Error{Kind: llm.InvalidRequest, Message: "m"}, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`},
		{llm.Error{Kind: llm.InvalidRequest, Status: 422, Message: "m"}, 422, `{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`},
		{errThread, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"thread: conversations are not kept here; send all messages, without thread","details":{"error_code":"thread_unsupported_request"}}}`},
		{llm.Error{Kind: llm.InvalidRequest, Code: llm.ContextLength, Message: "9 tokens"}, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens","details":{"error_code":"context_length_exceeded"}}}`},
		{llm.Error{Kind: llm.Authentication, Message: "m"}, 401, `{"type":"error","error":{"type":"authentication_error","message":"m"}}`},
		{llm.Error{Kind: llm.Permission, Code: llm.ModelNotAllowed, Message: "m"}, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"m","details":{"error_code":"model_not_allowed"}}}`},
		{llm.Error{Kind: llm.Permission, Code: llm.ModelNotAllowed, Message: "m", Relayed: true}, 403, `{"type":"error","error":{"type":"permission_error","message":"m","details":{"error_code":"model_not_allowed"}}}`},
		{llm.Error{Kind: llm.Quota, Code: llm.BudgetExceeded, Message: "m"}, 429, `{"type":"error","error":{"type":"billing_error","message":"m","details":{"error_code":"budget_exceeded"}}}`},
		{llm.Error{Kind: llm.Quota, Code: llm.BudgetExceeded, Message: "m", RetryAfter: 3*time.Hour + 29*time.Second}, 429, `{"type":"error","error":{"type":"billing_error","message":"m; some of it is available again in 3h0m","details":{"error_code":"budget_exceeded"}}}`},
		{llm.Error{Kind: llm.Quota, Message: "m"}, 402, `{"type":"error","error":{"type":"billing_error","message":"m"}}`},
		{llm.Error{Kind: llm.Permission, Message: "m"}, 403, `{"type":"error","error":{"type":"permission_error","message":"m"}}`},
		{llm.Error{Kind: llm.NotFound, Message: "m"}, 404, `{"type":"error","error":{"type":"not_found_error","message":"m"}}`},
		{llm.Error{Kind: llm.TooLarge, Message: "m"}, 413, `{"type":"error","error":{"type":"request_too_large","message":"m"}}`},
		{llm.Error{Kind: llm.NotSupported, Message: "m"}, 501, `{"type":"error","error":{"type":"not_supported","message":"m"}}`},
		{llm.Error{Kind: llm.RateLimit, Message: "m"}, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`},
		{llm.Error{Kind: llm.Upstream, Message: "m"}, 502, `{"type":"error","error":{"type":"api_error","message":"m"}}`},
		{llm.Error{Kind: llm.UpstreamAuth, Message: "m"}, 502, `{"type":"error","error":{"type":"api_error","message":"m"}}`},
		{llm.Error{Kind: llm.Overloaded, Message: "m"}, 529, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`},
		{llm.Error{Kind: llm.Timeout, Message: "m"}, 504, `{"type":"error","error":{"type":"timeout_error","message":"m"}}`},
		{llm.Error{Kind: "new", Message: "\"é\"\n"}, 500, `{"type":"error","error":{"type":"api_error","message":"\"é\"\n"}}`},
	} {
		if got := string((Codec{}).EncodeError(&c.err)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.err.Kind, got, c.want)
		}
		if got := (Codec{}).ErrorStatus(&c.err); got != c.status {
			t.Errorf("%s: status %d, want %d", c.err.Kind, got, c.status)
		}
		if got := string((Codec{}).EncodeStreamError(&c.err)); got != "event: error\ndata: "+c.want+"\n\n" {
			t.Errorf("%s: in a stream %s", c.err.Kind, got)
		}
	}
}
