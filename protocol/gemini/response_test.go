package gemini

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

func TestRuler(t *testing.T) {
	s := strings.Repeat("aé世😀", 50)
	var r ruler
	for i := 0; i < len(s); i += 7 {
		r.add(s[i:min(i+7, len(s))])
	}
	n := 0
	for i := range s {
		if r.chars(i) != n || r.byteOf(n) != i {
			t.Fatalf("byte %d: character %d, byte %d", i, r.chars(i), r.byteOf(n))
		}
		n++
	}
	if r.chars(len(s)) != utf8.RuneCountInString(s) || r.byteOf(n) != len(s) || r.byteOf(n+5) != len(s) || r.chars(-1) != 0 {
		t.Error("ends")
	}
}

func TestFinishReasons(t *testing.T) {
	for _, row := range stops {
		reason := row.Reason
		kind, _ := stops.Kind(reason)
		c := choice{finish: reason}
		if stop := c.stop(); stop.Kind != kind || finishReason(stop) != reason {
			t.Errorf("%s: %+v, back as %s", reason, stop, finishReason(stop))
		}
		c.calls = 1
		if stop := c.stop(); (stop.Kind == llm.ToolUse) != (reason == "STOP") {
			t.Errorf("%s with a call: %s", reason, stop.Kind)
		}
	}
	if stop := (&choice{finish: "FUTURE"}).stop(); stop.Kind != llm.Other || stop.Raw != "FUTURE" || finishReason(stop) != "OTHER" {
		t.Errorf("%+v", stop)
	}
	for kind, want := range map[llm.StopKind]string{
		llm.EndTurn: "STOP", llm.StopSequence: "STOP", llm.ToolUse: "STOP", llm.MaxTokens: "MAX_TOKENS", llm.ContextWindow: "MAX_TOKENS",
		llm.Refused: "SAFETY", llm.ContentFilter: "SAFETY", llm.Malformed: "MALFORMED_FUNCTION_CALL", llm.Pause: "OTHER", llm.Other: "OTHER",
	} {
		if got := finishReason(llm.Stop{Kind: kind, Raw: "whatever"}); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestForeignAnswer(t *testing.T) {
	resp := &llm.Response{
		ID: "chatcmpl-1", Model: "gpt-x", Usage: &llm.Usage{Input: 25, CacheRead: 75, CacheWrite: 10, Output: 17, Reasoning: 40},
		Choices: []llm.Choice{{Stop: llm.Stop{Kind: llm.ToolUse, Raw: "tool_calls"}, Blocks: []llm.Block{
			&llm.Thought{Parts: []llm.ThoughtPart{{Text: "hm"}}},
			&llm.Text{Text: "In 北京: ", Citations: []llm.Citation{{Start: 3, End: 5, URL: "u", Title: "t"}}},
			&llm.Refusal{Text: "no"},
			&llm.ServerCall{Protocol: "anthropic", Type: "x", Raw: `{}`, Digest: "d"},
			&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: `{"a": 1.10}`},
			&llm.ToolCall{CallID: "call_2", Kind: llm.FunctionTool, Name: "f", Args: ``},
		}}},
	}
	report := &llm.Report{}
	got := string(Codec{}.EncodeResponse(resp, nil, report))
	want := `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"In 北京: "},{"text":"no"},{"functionCall":{"id":"call_1","name":"f","args":{"a":1.10}}},{"functionCall":{"id":"call_2","name":"f","args":{}}}],"role":"model"},"finishReason":"STOP","index":0,` +
		`"groundingMetadata":{"groundingChunks":[{"web":{"uri":"u","title":"t"}}],"groundingSupports":[{"segment":{"partIndex":1,"startIndex":3,"endIndex":9},"groundingChunkIndices":[0]}]}}],` +
		`"usageMetadata":{"promptTokenCount":110,"candidatesTokenCount":17,"totalTokenCount":167,"cachedContentTokenCount":75,"thoughtsTokenCount":40},"modelVersion":"gpt-x","responseId":"chatcmpl-1"}`
	if got != want || losses(report) != "dropped usage.cache_write usage.cache_write\napproximated refusal.as_text choices[0].blocks[2]\ndropped server_tool.dropped choices[0].blocks[3]\n" {
		t.Errorf("\n got %s\nwant %s\n%s", got, want, losses(report))
	}
	var enc StreamEncoder
	var stream []byte
	for _, e := range llm.Explode(resp) {
		stream = enc.Encode(e, stream)
	}
	stream = enc.Encode(llm.Delta{Text: "late"}, stream) // nothing follows the end
	if strings.Contains(string(stream), "late") || strings.Count(string(stream), "finishReason") != 1 || strings.Count(string(stream), "usageMetadata") != 1 {
		t.Errorf("%s", stream)
	}
	streamed, bad := protocoltest.Collect(readStream(t, stream))
	whole, err := Codec{}.DecodeResponse([]byte(got))
	if err != nil || bad != nil {
		t.Fatalf("%v %v\n%s", err, bad, stream)
	}
	if a, b := visible(streamed), visible(whole); a != b || *streamed.Usage != *whole.Usage {
		t.Errorf("\n%s\n%s", a, b)
	}
}

func TestUnreadableCall(t *testing.T) {
	events := readStream(t, []byte(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1,"a":2}}}]},"finishReason":"STOP"}]}`+"\n\n"))
	if f, ok := events[len(events)-1].(llm.Failure); !ok || f.Err.Code != "upstream_invalid_response" {
		t.Errorf("%+v", events)
	}
}
