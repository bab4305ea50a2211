package converse

import (
	"net/http"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
)

func TestExceptions(t *testing.T) {
	for _, c := range []struct {
		status        int
		typ, message  string
		kind          llm.Kind
		code, visible string
	}{
		{429, "ThrottlingException", "Too many tokens, please wait before trying again.", llm.RateLimit, "", "Too many tokens, please wait before trying again."},
		{429, "ModelNotReadyException", "not ready", llm.Overloaded, "", "not ready"},
		{400, "ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/", "Input is too long.", llm.InvalidRequest, llm.ContextLength, "Input is too long."},
		{400, "ValidationException", "input length and `max_tokens` exceed context limit: 1 + 2 > 3", llm.InvalidRequest, llm.ContextLength, "input length and `max_tokens` exceed context limit: 1 + 2 > 3"},
		{400, "ValidationException", "The model returned the following errors: x", llm.InvalidRequest, "", "The model returned the following errors: x"},
		{400, "ServiceQuotaExceededException", "quota", llm.Quota, "", "quota"},
		{403, "AccessDeniedException", "User: arn:aws:iam::123456789012:user/jane is not authorized to perform: bedrock:InvokeModel on resource: arn:aws:bedrock:us-east-1::foundation-model/m", llm.Permission, "",
			"User: arn:aws:iam::123456789012:user/jane is not authorized to perform: bedrock:InvokeModel on resource: arn:aws:bedrock:us-east-1::foundation-model/m"},
		{403, "AccessDeniedException", "Authentication failed: Please make sure your API Key is valid.", llm.UpstreamAuth, "", "Authentication failed: Please make sure your API Key is valid."},
		{403, "ExpiredTokenException", "The security token included in the request is expired", llm.UpstreamAuth, "", "The security token included in the request is expired"},
		{403, "UnrecognizedClientException", "x", llm.UpstreamAuth, "", "x"},
		{404, "ResourceNotFoundException", "Account 123456789012 has no model m", llm.NotFound, "", "Account 123456789012 has no model m"},
		{408, "ModelTimeoutException", "slow", llm.Timeout, "", "slow"},
		{424, "ModelErrorException", "broken", llm.Upstream, "", "broken"},
		{424, "", "broken", llm.Upstream, "", "broken"},
		{500, "InternalServerException", "oh", llm.Upstream, "", "oh"},
		{503, "ServiceUnavailableException", "later", llm.Overloaded, "", "later"},
	} {
		e := Codec{}.DecodeError(c.status, http.Header{"X-Amzn-Errortype": {c.typ}}, []byte(`{"message":`+string(blockcodec.Quoted(c.message))+`}`))
		if e.Kind != c.kind || e.Code != c.code || e.Message != c.visible || !e.Relayed {
			t.Errorf("%s %q: %s %q %q", c.typ, c.message, e.Kind, e.Code, e.Message)
		}
	}
}

// A prompt that is too long has the vendor's words, whatever the upstream said.
func TestOverflowWords(t *testing.T) {
	for message, want := range map[string]string{
		"Input is too long.": `{"__type":"ValidationException","message":"Input is too long."}`,
		"prompt: 9 tokens":   `{"__type":"ValidationException","message":"Input is too long. prompt: 9 tokens"}`,
	} {
		if got := string(Codec{}.EncodeError(&llm.Error{Kind: llm.InvalidRequest, Code: llm.ContextLength, Message: message})); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
