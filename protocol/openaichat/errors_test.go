package openaichat

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		raw           string
		kind          llm.Kind
		status        int
		code, message string
	}{
		{`{"message":"m","type":"invalid_request_error","param":"p","code":null}`, llm.InvalidRequest, 400, "", "m"},
		{`{"message":"m","type":"server_error","code":"x"}`, llm.Upstream, 502, "x", "m"},
		{`{"message":"m","type":"tokens","code":"rate_limit_exceeded"}`, llm.RateLimit, 429, "rate_limit_exceeded", "m"},
		{`{"message":"m","type":"insufficient_quota"}`, llm.Quota, 429, "", "m"},
		{`{"message":"m","type":"overloaded_error"}`, llm.Overloaded, 503, "", "m"},
		{`{"message":"m","code":"service_unavailable"}`, llm.Overloaded, 503, "service_unavailable", "m"},
		{`{"message":"m","code":"invalid_api_key"}`, llm.UpstreamAuth, 502, "invalid_api_key", "m"},
		{`{"message":"m","type":"authentication_error"}`, llm.UpstreamAuth, 502, "", "m"},
		{`{"message":"m","code":"context_length_exceeded"}`, llm.InvalidRequest, 400, "context_length_exceeded", "m"},
		{`{"message":"m","type":"exceed_context_size_error"}`, llm.InvalidRequest, 400, "", "m"},
		{`{"message":"m","type":"timeout"}`, llm.Timeout, 504, "", "m"},
		{`{"message":"m","code":401}`, llm.UpstreamAuth, 502, "401", "m"},
		{`{"message":"m","code":"429"}`, llm.RateLimit, 429, "429", "m"},
		{`{"message":"m","code":422}`, llm.InvalidRequest, 422, "422", "m"},
		{`{"message":"m","code":408}`, llm.Timeout, 504, "408", "m"},
		{`{"message":"m","code":529}`, llm.Overloaded, 503, "529", "m"},
		{`{"message":"m","code":504}`, llm.Timeout, 504, "504", "m"},
		{`{"message":"m","code":500}`, llm.Upstream, 502, "500", "m"},
		{`{"message":"m","code":200}`, llm.Upstream, 502, "200", "m"},
		{`{"message":"m","code":{"a":1},"type":["x"],"param":null}`, llm.Upstream, 502, "", "m"},
		{`{"message":{"text":"x"}}`, llm.Upstream, 502, "", "the upstream reported an error without a message"},
		{`{}`, llm.Upstream, 502, "", "the upstream reported an error without a message"},
		{`"text"`, llm.Upstream, 502, "", "text"},
		{`[1]`, llm.Upstream, 502, "", "the upstream reported an error without a message"},
		{`503`, llm.Upstream, 502, "", "the upstream reported an error without a message"},
		{`{"message":"\ud83d","message":"twice"}`, llm.Upstream, 502, "", "twice"},
	} {
		e := decodeError([]byte(c.raw))
		if e.Kind != c.kind || e.HTTPStatus() != c.status || e.Code != c.code || e.Message != c.message || !e.Relayed {
			t.Errorf("%s: %+v", c.raw, e)
		}
	}
}

func TestEncodeError(t *testing.T) {
	for _, c := range []struct {
		err  llm.Error
		want string
	}{
		{llm.Error{Kind: llm.InvalidRequest, Message: "m"}, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}}`},
		{llm.Error{Kind: llm.NotFound, Code: "model_not_found", Param: "model", Message: "é \"q\" \n"}, `{"error":{"message":"é \"q\" \n","type":"invalid_request_error","param":"model","code":"model_not_found"}}`},
		{llm.Error{Kind: llm.RateLimit, Message: "m"}, `{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`},
		{llm.Error{Kind: "new", Message: "\xff"}, `{"error":{"message":"` + "\ufffd" + `","type":"server_error","param":null,"code":"internal_error"}}`},
	} {
		if got := string(Codec{}.EncodeError(&c.err)); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
		if got := string(Codec{}.EncodeStreamError(&c.err)); got != "data: "+c.want+"\n\n" {
			t.Errorf("got %q", got)
		}
	}
}
