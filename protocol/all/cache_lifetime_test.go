package all_test

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// lifetimes are responses of 100 tokens that are written to a cache, 40 of them for an hour.
var lifetimes = map[protocol.Name]struct{ body, member string }{
	protocol.Anthropic: {`{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,` +
		`"usage":{"input_tokens":5,"cache_creation_input_tokens":100,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40},"output_tokens":3}}`,
		`"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40}`},
	protocol.Converse: {`{"output":{"message":{"role":"assistant","content":[{"text":"hi"}]}},"stopReason":"end_turn","metrics":{"latencyMs":1},` +
		`"usage":{"inputTokens":5,"outputTokens":3,"totalTokens":108,"cacheReadInputTokens":0,"cacheWriteInputTokens":100,"cacheDetails":[{"inputTokens":40,"ttl":"1h"},{"inputTokens":60,"ttl":"5m"}]}}`,
		`"cacheDetails":[{"inputTokens":40,"ttl":"1h"},{"inputTokens":60,"ttl":"5m"}]`},
}

// TestCacheLifetimes checks that the tokens that are written to a cache for an hour are counted, and arrive once in
// the dialects that have them, in complete responses and in streams.
func TestCacheLifetimes(t *testing.T) {
	codecs := map[protocol.Name]protocol.Translator{}
	for _, c := range all.Codecs() {
		codecs[c.Name()] = c
	}
	want := llm.Usage{Input: 5, CacheWrite: 100, Output: 3}
	*want.At(llm.CacheWrite1h) = 40
	for from, sample := range lifetimes {
		tap := codecs[from].NewTap(1)
		if err := tap.Body([]byte(sample.body)); err != nil || *tap.Summary().Usage != want {
			t.Errorf("%s: a tap reads %+v, %v", from, tap.Summary().Usage, err)
		}
		resp, err := codecs[from].DecodeResponse([]byte(sample.body))
		if err != nil || *resp.Usage != want {
			t.Fatalf("%s: %+v, %v", from, resp, err)
		}
		for to, other := range lifetimes {
			body := string(codecs[to].EncodeResponse(resp, &llm.Request{}, &llm.Report{}))
			if strings.Count(body, other.member) != 1 {
				t.Errorf("%s as %s: %s", from, to, body)
			}
			encoder := codecs[to].NewStreamEncoder(&llm.Request{})
			var stream []byte
			for _, e := range llm.Explode(resp) {
				stream = encoder.Encode(e, stream)
			}
			if text := string(stream); strings.Count(text, other.member) != 1 {
				t.Errorf("%s as %s: %s", from, to, text)
			}
		}
	}
}

// TestStrangeLifetimes checks that counts which no vendor sends are not more than the tokens that are written, and that
// an impossible count makes the usage unknown.
func TestStrangeLifetimes(t *testing.T) {
	for _, c := range []struct {
		from     protocol.Name
		old, new string
		want     int64 // -1: the usage is unknown
	}{
		{protocol.Anthropic, `"ephemeral_1h_input_tokens":40`, `"ephemeral_1h_input_tokens":400`, 100},
		{protocol.Anthropic, `"ephemeral_1h_input_tokens":40`, `"ephemeral_1h_input_tokens":-4`, -1},
		{protocol.Anthropic, `{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40}`, `[7]`, 0},
		{protocol.Anthropic, `"cache_creation_input_tokens":100`, `"cache_creation_input_tokens":0`, 0},
		{protocol.Converse, `"inputTokens":40`, `"inputTokens":400`, 100},
		{protocol.Converse, `"inputTokens":40`, `"inputTokens":-4`, -1},
		{protocol.Converse, `[{"inputTokens":40,"ttl":"1h"},{"inputTokens":60,"ttl":"5m"}]`, `{"a":1}`, 0},
	} {
		for _, codec := range all.Codecs() {
			if codec.Name() != c.from {
				continue
			}
			tap := codec.NewTap(1)
			_ = tap.Body([]byte(strings.Replace(lifetimes[c.from].body, c.old, c.new, 1)))
			u := tap.Summary().Usage
			if (u == nil) != (c.want < 0) || u != nil && *u.At(llm.CacheWrite1h) != c.want {
				t.Errorf("%s with %s: %+v, want %d", c.from, c.new, u, c.want)
			}
		}
	}
}
