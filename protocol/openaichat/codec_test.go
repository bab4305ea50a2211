package openaichat

import (
	"bytes"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

func TestCodec(t *testing.T) { protocoltest.Run(t, Codec{}, "testdata/codec") }

// disagreed are the streams that the two read differently, and why.
var disagreed = map[string]string{
	"done_without_finish_cut_tool": "the aggregator keeps stop; a translated call that was cut must not be run",
	"surrogate_pair_split":         "text that goes on behind a call is a block of its own, and so is half a character",
}

// The aggregator and the stream decoder read the same streams; what they make of
// them is the same answer.
func TestDecoderAgreesWithAggregator(t *testing.T) {
	for name, c := range streamCases(t) {
		t.Run(name, func(t *testing.T) {
			if why := disagreed[name]; why != "" {
				t.Skip(why)
			}
			raw := []byte(c.section("upstream.sse"))
			events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			if err := protocoltest.ValidateEvents(events); err != nil {
				t.Fatalf("%v\n%s", err, protocoltest.DumpEvents(events))
			}
			body := c.section("body.json")
			got, err := protocoltest.Collect(events)
			if (err == nil) != (body != "") {
				t.Fatalf("%v, but the aggregator has %q", err, body)
			}
			client := protocoltest.WriteStream(Codec{}, &llm.Request{IncludeUsage: true}, events)
			if ending, err := protocoltest.CheckChat(client); err != nil || (ending == protocoltest.Completed) != (body != "") {
				t.Errorf("the client's stream ends %s: %v\n%s", ending, err, client)
			}
			if err != nil {
				return
			}
			want, lerr := Codec{}.DecodeResponse([]byte(body))
			if lerr != nil {
				t.Fatal(lerr)
			}
			if a, b := agreed(want), agreed(got); a != b {
				t.Errorf("whole:\n%s\nstreamed:\n%s\n%s", a, b, strings.TrimSpace(body))
			}
		})
	}
}

// agreed is an answer without what the two differ in: ids that were made, and a
// model or tier that is named when the answer has begun.
func agreed(r *llm.Response) string {
	r = protocoltest.Bare(r)
	r.Model, r.Tier, r.Created = "", "", 0
	for _, c := range r.Choices {
		for _, b := range c.Blocks {
			if call, ok := b.(*llm.ToolCall); ok {
				if len(call.CallID) == len(llm.MintID("call_")) {
					call.CallID = "minted"
				}
			}
		}
	}
	return protocoltest.DumpResponse(r)
}

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
