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
