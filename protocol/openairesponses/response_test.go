package openairesponses

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// What upstreams of other protocols answer, in one choice, and what it becomes:
// the output, and the status with its cause.
var foreignAnswers = []struct {
	name   string
	blocks []llm.Block
	stop   llm.Stop
	output string
	status string
	losses string
}{
	{
		name: "sealed reasoning, text and call carry their seals beside them",
		blocks: []llm.Block{
			&llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "SIG", Origin: "anthropic"}}}, Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "hm"}, {Form: llm.FullReasoning, Text: "so"}}},
			&llm.Text{Text: "a", Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "G1", Origin: "gemini"}}}},
			&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: `{"n":1.10}`, Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "G2", Origin: "gemini"}}}},
		},
		stop: llm.Stop{Kind: llm.ToolUse},
		output: `[{"id":"rs_","type":"reasoning","summary":[{"type":"summary_text","text":"hm"},{"type":"summary_text","text":"so"}],"encrypted_content":"aXNvZ2xvc3M6eyJhbnRocm9waWMiOnsic2lnbmF0dXJlIjoiU0lHIn19"},
			{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[],"extra_content":{"google":{"thought_signature":"G1"}}}]},
			{"id":"fc_","type":"function_call","status":"completed","call_id":"call_1","name":"f","arguments":"{\"n\":1.10}","extra_content":{"google":{"thought_signature":"G2"}}}]`,
		status: "completed",
	},
	{
		name:   "redacted reasoning is an item without words",
		blocks: []llm.Block{&llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Redacted, Data: "R", Origin: "anthropic"}}}}, &llm.Text{Text: "a"}},
		stop:   llm.Stop{Kind: llm.EndTurn},
		output: `[{"id":"rs_","type":"reasoning","summary":[],"encrypted_content":"aXNvZ2xvc3M6eyJhbnRocm9waWMiOnsicmVkYWN0ZWRfdGhpbmtpbmciOiJSIn19"},
			{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]}]`,
		status: "completed",
	},
	{
		name:   "text, call, text are three items; adjacent texts are one message, RSP-39",
		blocks: []llm.Block{&llm.Text{Text: "a"}, &llm.Text{Text: "b"}, &llm.ToolCall{CallID: "c", Kind: llm.CustomTool, Name: "p"}, &llm.Text{Text: "d"}},
		stop:   llm.Stop{Kind: llm.ToolUse},
		output: `[{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]},{"type":"output_text","text":"b","annotations":[],"logprobs":[]}]},
			{"id":"ctc_","type":"custom_tool_call","status":"completed","call_id":"c","name":"p","input":""},
			{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"d","annotations":[],"logprobs":[]}]}]`,
		status: "completed",
	},
	{
		name:   "a call without arguments, RSP-33, and one whose arguments are no JSON, JSN-17",
		blocks: []llm.Block{&llm.ToolCall{CallID: "c1", Kind: llm.FunctionTool, Name: "f"}, &llm.ToolCall{CallID: "c2", Kind: llm.FunctionTool, Name: "g", Namespace: "n", Args: `{"a":`}},
		stop:   llm.Stop{Kind: llm.ToolUse},
		output: `[{"id":"fc_","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{}"},
			{"id":"fc_","type":"function_call","status":"completed","call_id":"c2","name":"g","namespace":"n","arguments":"{\"a\":"}]`,
		status: "completed",
	},
	{
		name: "searches for tools are the client's: with an object in one line, without arguments, with words, with two members of one name",
		blocks: []llm.Block{
			&llm.ToolCall{CallID: "c1", Kind: llm.SearchTool, Name: "tool_search", Args: "{\n  \"query\": \"a\\n\\u00e9\",\n  \"limit\": 1.0\n}", Meta: llm.Meta{ID: "toolu_1", Seals: []llm.Seal{{Form: llm.Signature, Data: "G", Origin: "gemini"}}}},
			&llm.ToolCall{CallID: "c2", Kind: llm.SearchTool, Name: "tool_search"},
			&llm.ToolCall{CallID: "c3", Kind: llm.SearchTool, Name: "tool_search", Args: `stamp "x"`},
			&llm.ToolCall{CallID: "c4", Kind: llm.SearchTool, Name: "tool_search", Args: `{"a":1,"a":2}`},
		},
		stop: llm.Stop{Kind: llm.ToolUse},
		output: `[{"id":"tsc_","type":"tool_search_call","status":"completed","call_id":"c1","execution":"client","arguments":{"query":"a\n\u00e9","limit":1.0},"extra_content":{"google":{"thought_signature":"G"}}},
			{"id":"tsc_","type":"tool_search_call","status":"completed","call_id":"c2","execution":"client","arguments":{}},
			{"id":"tsc_","type":"tool_search_call","status":"completed","call_id":"c3","execution":"client","arguments":"stamp \"x\""},
			{"id":"tsc_","type":"tool_search_call","status":"completed","call_id":"c4","execution":"client","arguments":"{\"a\":1,\"a\":2}"}]`,
		status: "completed",
	},
	{
		name:   "a search that was cut is no object",
		blocks: []llm.Block{&llm.ToolCall{CallID: "c1", Kind: llm.SearchTool, Name: "tool_search", Args: `{"query":"st`}},
		stop:   llm.Stop{Kind: llm.MaxTokens},
		output: `[{"id":"tsc_","type":"tool_search_call","status":"incomplete","call_id":"c1","execution":"client","arguments":"{\"query\":\"st"}]`,
		status: "incomplete max_output_tokens",
	},
	{
		name:   "cut at the limit: the last item is incomplete, RSP-25",
		blocks: []llm.Block{&llm.Text{Text: "a"}, &llm.ToolCall{CallID: "c1", Kind: llm.FunctionTool, Name: "f", Args: `{"a"`}},
		stop:   llm.Stop{Kind: llm.MaxTokens},
		output: `[{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]},
			{"id":"fc_","type":"function_call","status":"incomplete","call_id":"c1","name":"f","arguments":"{\"a\""}]`,
		status: "incomplete max_output_tokens",
	},
	{name: "the context is full", stop: llm.Stop{Kind: llm.ContextWindow}, output: `[]`, status: "incomplete max_output_tokens", losses: "approximated choices.stop stop_reason.lossy"},
	{name: "paused", stop: llm.Stop{Kind: llm.Pause}, output: `[]`, status: "incomplete max_output_tokens", losses: "approximated choices.stop stop_reason.lossy"},
	{name: "the prompt was blocked", stop: llm.Stop{Kind: llm.PromptBlocked}, output: `[]`, status: "incomplete content_filter", losses: "approximated choices.stop stop_reason.lossy"},
	{name: "refused without words", stop: llm.Stop{Kind: llm.Refused}, output: `[]`, status: "incomplete content_filter", losses: "approximated choices.stop stop_reason.lossy"},
	{
		name: "refused in words, RSP-35", blocks: []llm.Block{&llm.Refusal{Text: "no"}}, stop: llm.Stop{Kind: llm.Refused},
		output: `[{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]`, status: "completed",
	},
	{name: "a call that cannot be read", stop: llm.Stop{Kind: llm.Malformed, Raw: "MALFORMED_FUNCTION_CALL"}, output: `[]`, status: "failed server_error", losses: "approximated choices.stop stop_reason.lossy"},
	{name: "a reason that nobody knows", stop: llm.Stop{Kind: llm.Other, Raw: "x"}, output: `[]`, status: "failed server_error", losses: "approximated choices.stop stop_reason.lossy"},
	{
		name: "citations: the whole block, a span, and one without an address, RSP-34",
		blocks: []llm.Block{&llm.Text{Text: "héllo", Citations: []llm.Citation{
			{URL: "https://example.com/a", Title: "A"}, {URL: "https://example.com/b", Start: 1, End: 3}, {Quote: "q", Protocol: "anthropic", Raw: "{}"}}}},
		stop: llm.Stop{Kind: llm.EndTurn},
		output: `[{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"héllo","logprobs":[],"annotations":[
			{"type":"url_citation","start_index":0,"end_index":5,"url":"https://example.com/a","title":"A"},{"type":"url_citation","start_index":1,"end_index":3,"url":"https://example.com/b","title":""}]}]}]`,
		status: "completed", losses: "dropped choices.blocks.citations citation.no_url",
	},
	{
		name:   "media that are no picture, a picture by its address, and what a refusal has beside its words",
		blocks: []llm.Block{&llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: "AA=="}, &llm.Media{Kind: llm.Image, URL: "https://example.com/a.png"}, &llm.Refusal{Text: "no", Logprobs: `[{"token":"no"}]`}},
		stop:   llm.Stop{Kind: llm.Refused, Category: "c", Explanation: "e"},
		output: `[{"id":"msg_","type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]`,
		status: "completed",
		losses: `dropped choices.blocks media.unsupported
dropped choices.blocks media.unsupported
dropped choices.blocks.logprobs logprobs.unsupported
dropped choices.stop.category stop_reason.lossy
dropped choices.stop.explanation stop_reason.lossy`,
	},
	{
		name:   "items of other vendors are left out, a picture is an item",
		blocks: []llm.Block{&llm.ServerCall{Protocol: "anthropic", Type: "web_search_tool_result"}, &llm.Opaque{Protocol: "gemini", Type: "x"}, &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "AA=="}},
		stop:   llm.Stop{Kind: llm.EndTurn},
		output: `[{"id":"ig_","type":"image_generation_call","status":"completed","result":"AA=="}]`,
		status: "completed",
		losses: `dropped choices.blocks server_tool.dropped
dropped choices.blocks block.unknown`,
	},
}

func TestForeignAnswers(t *testing.T) {
	req := &llm.Request{Model: "asked", Stream: true}
	for _, tc := range foreignAnswers {
		t.Run(tc.name, func(t *testing.T) {
			resp := &llm.Response{ID: "chatcmpl-1", Model: "up", Created: 7, Usage: &llm.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5},
				Choices: []llm.Choice{{Blocks: tc.blocks, Stop: tc.stop}}}
			var report llm.Report
			body := Codec{}.EncodeResponse(resp, req, &report)
			if got := lossLines(&report); got != tc.losses {
				t.Errorf("report:\n%s\nwant:\n%s", got, tc.losses)
			}
			checkSchema(t, "response", body)
			output, status := outcomeOf(t, body)
			if status != tc.status {
				t.Errorf("status %q, want %q", status, tc.status)
			}
			for _, d := range protocoltest.DiffJSON([]byte(tc.output), output) {
				t.Errorf("%s\n%s", d, output)
			}
			stream := protocoltest.WriteStream(Codec{}, req, llm.Explode(resp))
			if _, err := protocoltest.Check(protocol.OpenAIResponses, stream); err != nil {
				t.Errorf("%v\n%s", err, stream)
			}
			checkStreamSchema(t, stream)
			if !bytes.Contains(stream, body) {
				t.Errorf("the stream does not end with the whole answer:\n%s\n%s", stream, body)
			}
		})
	}
}

// outcomeOf is an answer's output without what is made up in its ids, and how it
// stands.
func outcomeOf(t *testing.T, body []byte) ([]byte, string) {
	t.Helper()
	var r struct {
		Status     string                      `json:"status"`
		Error      struct{ Code string }       `json:"error"`
		Incomplete struct{ Reason string }     `json:"incomplete_details"`
		Output     []map[string]jsontext.Value `json:"output"`
	}
	if err := json.Unmarshal(body, &r, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	for _, it := range r.Output {
		if id, _, ok := strings.Cut(string(it["id"]), "_"); ok {
			it["id"] = jsontext.Value(id + `_"`)
		}
	}
	output, err := json.Marshal(r.Output)
	if err != nil {
		t.Fatal(err)
	}
	return output, strings.TrimSpace(r.Status + " " + r.Error.Code + r.Incomplete.Reason)
}

// Blocks that are open at the same time, as Chat Completions may send them.
func TestInterleavedBlocks(t *testing.T) {
	call := func(id string) *llm.ToolCall { return &llm.ToolCall{CallID: id, Kind: llm.FunctionTool, Name: "f"} }
	events := []llm.Event{
		llm.Start{ID: "x", Model: "m", Created: 1},
		llm.BlockStart{Index: 0, Block: &llm.Text{}}, llm.BlockStart{Index: 1, Block: call("a")}, llm.BlockStart{Index: 2, Block: call("b")},
		llm.Delta{Index: 2, Text: "{}"}, llm.Delta{Index: 0, Text: "t"}, llm.BlockEnd{Index: 2}, llm.Delta{Index: 1, Text: "{"}, llm.BlockEnd{Index: 0},
		llm.Delta{Index: 1, Text: "}"}, llm.BlockStart{Choice: 1, Index: 0, Block: &llm.Text{}}, llm.Delta{Choice: 1, Text: "another choice"}, llm.BlockEnd{Choice: 1},
		llm.BlockEnd{Index: 1}, llm.Ping{},
		llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.ToolUse}}, llm.ChoiceEnd{Choice: 1, Stop: llm.Stop{Kind: llm.EndTurn}},
		llm.UsageUpdate{Usage: llm.Usage{Input: 1, Output: 2}}, llm.End{}, llm.Delta{Index: 0, Text: "too late"},
	}
	stream := protocoltest.WriteStream(Codec{}, nil, events)
	if end, err := protocoltest.Check(protocol.OpenAIResponses, stream); err != nil || end != protocoltest.Completed {
		t.Fatalf("%s %v\n%s", end, err, stream)
	}
	read, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	r, err := protocoltest.Collect(read)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.Choices[0].Blocks); got != 3 {
		t.Errorf("%d blocks, want 3", got)
	}
	if bytes.Contains(stream, []byte("another choice")) || bytes.Contains(stream, []byte("too late")) {
		t.Errorf("what has no place was written:\n%s", stream)
	}
}

// An answer that was whole becomes a stream with the upstream's own echoes.
func TestExplode(t *testing.T) {
	body := []byte(`{"id":"resp_1","object":"response","created_at":5,"status":"completed","model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a\n\nb","annotations":[]}]}],"store":true,"x":1.10,"usage":null}`)
	resp, bad := Codec{}.DecodeResponse(body)
	if bad != nil {
		t.Fatal(bad)
	}
	var events [][]byte
	for line := range bytes.Lines(protocoltest.WriteStream(Codec{}, nil, llm.Explode(resp))) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			events = append(events, data)
		}
	}
	var last struct {
		Type     string         `json:"type"`
		Response jsontext.Value `json:"response"`
	}
	for _, e := range events {
		if err := json.Unmarshal(e, &last); err != nil {
			t.Fatalf("%v: %s", err, e)
		}
	}
	for _, member := range []string{`"store":true`, `"x":1.10`, `"a\n\nb"`} {
		if !strings.Contains(string(last.Response), member) {
			t.Errorf("%s has no %s", last.Response, member)
		}
	}
	if len(events) != 9 || last.Type != "response.completed" {
		t.Errorf("%d events, the last is %s", len(events), last.Type)
	}
	if _, err := (Codec{}).DecodeResponse([]byte(`{"status":"failed"}`)); err == nil {
		t.Error("a response that failed was read")
	}
}

func TestTap(t *testing.T) {
	done := `{"type":"response.completed","response":{"id":"resp_1","model":"up","status":"completed","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}}`
	for _, tc := range []struct {
		event  string
		mark   protocol.Mark
		finish string
		whole  bool
	}{
		{`{"type":"response.created","response":{"id":"resp_1","model":"up","status":"in_progress"}}`, protocol.Content, "", false},
		{`{"type":"response.output_text.delta","delta":"\"type\":\"response.completed\"","response":{"status":"completed"}}`, protocol.Content, "", false},
		{`{"response":{"status":"completed"},"type":"response.completed"}`, protocol.Done, "completed", true},
		{done, protocol.Done, "completed", true},
		{`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`, protocol.Done, "max_output_tokens", true},
		{`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}`, protocol.Failed, "", false},
		{`{"type":"error","code":"rate_limit_exceeded","message":"m"}`, protocol.Failed, "", false},
		{`{"error":{"message":"m"}}`, protocol.Failed, "", false},
		{`not json`, protocol.Failed, "", false},
		{`[DONE]`, protocol.Keepalive, "", false},
		{``, protocol.Keepalive, "", false},
	} {
		tap := Codec{}.NewTap(1)
		mark := tap.Event([]byte(tc.event))
		if s := tap.Summary(); mark != tc.mark || s.Finish != tc.finish || s.Complete != tc.whole || (mark == protocol.Failed) != (s.Err != nil) {
			t.Errorf("%s: mark %d, %+v", tc.event, mark, s)
		}
	}
	tap := Codec{}.NewTap(1)
	tap.Event([]byte(done))
	if s := tap.Summary(); s.ID != "resp_1" || s.Model != "up" || *s.Usage != (llm.Usage{Input: 6, CacheRead: 4, Output: 3, Reasoning: 2}) {
		t.Errorf("%+v %+v", s, s.Usage)
	}
	for body, ok := range map[string]bool{`{"id":"r","status":"completed","output":[]}`: true, `{"status":"failed"}`: false, `{"error":{"message":"m"}}`: false, `{}`: false, `<html>`: false, `[]`: false} {
		if err := (Codec{}).NewTap(1).Body([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}
