package openaichat

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

func TestCodec(t *testing.T) { protocoltest.Run(t, Codec{}, "testdata/codec") }

func TestDecodeErrorAnswer(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		kind    llm.Kind
		http    int
		code    string
		message string
	}{
		{400, `{"error":{"message":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"inner\"}}"}}`, llm.InvalidRequest, 400, "", "inner"}, // ERR-17
		{400, `{"error":{"message":"{not json"}}`, llm.InvalidRequest, 400, "", "{not json"},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens"}}`, llm.InvalidRequest, 400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"}, // ERR-18
		{400, `{"error":{"message":"m","type":"exceed_context_size_error","code":400}}`, llm.InvalidRequest, 400, "context_length_exceeded", "m"},
		{422, `{"error":{"message":"m"}}`, llm.InvalidRequest, 422, "", "m"},
		{429, `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.Quota, 429, "insufficient_quota", "m"},
		{402, `{"error":{"message":"m"}}`, llm.Quota, 429, "", "m"},
		{401, `{"error":{"message":"m","code":"invalid_api_key"}}`, llm.UpstreamAuth, 502, "invalid_api_key", "m"}, // ERR-15
		{413, `{"error":{"message":"m"}}`, llm.TooLarge, 413, "", "m"},
	} {
		e := Codec{}.DecodeError(c.status, nil, []byte(c.body))
		if e.Kind != c.kind || (Codec{}).ErrorStatus(e) != c.http || e.Code != c.code || e.Message != c.message || !e.Relayed {
			t.Errorf("%d %s: %s", c.status, c.body, protocoltest.DumpError(e))
		}
	}
}
