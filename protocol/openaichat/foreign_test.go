package openaichat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// What requests of other protocols bring: how it is written, and what is reported.
func TestEncodeForeignRequest(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	yes := true
	appendText := func(blocks ...llm.Block) []llm.Turn { return []llm.Turn{{Role: llm.User, Blocks: blocks}} }
	called := func(calls []llm.Block, results ...llm.Block) []llm.Turn {
		return []llm.Turn{{Role: llm.Assistant, Blocks: calls}, {Role: llm.ToolRole, Blocks: results}}
	}
	call := func(id, name, args string) llm.Block {
		return &llm.ToolCall{CallID: id, Kind: llm.FunctionTool, Name: name, Args: args}
	}
	png := &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "AAAA"}
	for name, c := range map[string]struct {
		req    llm.Request
		gates  protocol.Gates
		want   string // a part of the body; empty: the request is refused
		report string
	}{
		"top_k":              {req: llm.Request{Sampling: llm.Sampling{TopK: "40", Temperature: "1.50"}}, want: `"temperature":1.50`, report: "dropped sampling.top_k top_k.unsupported"},
		"budget":             {req: llm.Request{Reasoning: llm.Reasoning{Budget: n(2048)}}, want: `"reasoning_effort":"low"`, report: "approximated reasoning.budget effort.from_budget"},
		"budget of nothing":  {req: llm.Request{Reasoning: llm.Reasoning{Budget: n(0)}}, want: `"reasoning_effort":"none"`, report: "approximated reasoning.budget effort.from_budget"},
		"budget of any size": {req: llm.Request{Reasoning: llm.Reasoning{Budget: n(-1)}}, want: `"messages":[]`, report: "approximated reasoning.mode reasoning.default"},
		"thinking off":       {req: llm.Request{Reasoning: llm.Reasoning{Mode: "off"}}, want: `"reasoning_effort":"none"`},
		"no tokens":          {req: llm.Request{Output: llm.Output{MaxTokens: n(0)}}, report: "refused output.max_tokens max_tokens.zero"},
		"enum":               {req: llm.Request{Output: llm.Output{Format: llm.Format{Kind: "enum", Schema: `{"enum":["a"]}`}}}, want: `"json_schema":{"name":"answer","schema":{"enum":["a"]}}`, report: "approximated output.format format.enum"},
		"state":              {req: llm.Request{State: llm.State{PreviousID: "resp_1"}}, report: "refused state.previous_id state.previous_response"},
		"conversation":       {req: llm.Request{State: llm.State{Conversation: `"c"`}}, report: "refused state.conversation state.conversation"},
		"background":         {req: llm.Request{State: llm.State{Background: &yes}}, report: "refused state.background state.background"},
		"truncation":         {req: llm.Request{State: llm.State{Truncation: "auto"}}, want: `"messages":[]`, report: "dropped state.truncation truncation.unsupported"},
		"speed":              {req: llm.Request{Service: llm.Service{Speed: "fast"}}, want: `"service_tier":"fast"`, report: "approximated service.speed speed.as_tier"},
		"automatic cache":    {req: llm.Request{Cache: llm.Cache{Auto: &llm.CacheMark{TTL: "5m"}}}, want: `"messages":[]`, report: "dropped cache.auto cache.automatic"},
		"members of others":  {req: llm.Request{Ext: llm.Ext{Protocol: "anthropic", Members: []llm.Member{{Name: "container", Value: "{}"}}}}, want: `"messages":[]`, report: "dropped ext.container ext.unknown_field"},
		"stream with usage":  {req: llm.Request{Stream: true, IncludeUsage: true}, want: `"stream":true,"stream_options":{"include_usage":true}`},

		"cache mark":       {req: llm.Request{Turns: appendText(&llm.Text{Text: "x", Meta: llm.Meta{Cache: &llm.CacheMark{TTL: "1h"}}})}, want: `"content":"x"`, report: "dropped turns[0].blocks[0] cache.mark"},
		"several texts":    {req: llm.Request{Turns: appendText(&llm.Text{Text: "x"}, &llm.Text{Text: "y"})}, want: `"content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]`},
		"foreign file":     {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.File, FileID: "file_011"})}, report: "refused turns[0].blocks[0] media.foreign_file"},
		"document":         {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.File, Text: "body", Title: "T", Context: "C"})}, want: `"content":"T\nC\nbody"`, report: "approximated turns[0].blocks[0] document.as_text"},
		"PDF":              {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.File, MIME: "application/pdf", Data: "AAAA"})}, want: `"file":{"file_data":"data:application/pdf;base64,AAAA","filename":"document.pdf"}`},
		"PDF with title":   {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.File, MIME: "application/pdf", Data: "AAAA", Title: "a.pdf"})}, want: `"filename":"a.pdf"`},
		"PDF by address":   {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.File, URL: "https://e.x/a.pdf"})}, report: "refused turns[0].blocks[0] media.url"},
		"sound":            {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.Audio, MIME: "audio/mpeg", Data: "AAAA"})}, want: `"input_audio":{"data":"AAAA","format":"mp3"}`},
		"sound of no kind": {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.Audio, MIME: "audio/flac", Data: "AAAA"})}, report: "refused turns[0].blocks[0] media.unsupported"},
		"video":            {req: llm.Request{Turns: appendText(&llm.Media{Kind: llm.Video, MIME: "video/mp4", Data: "AAAA"})}, report: "refused turns[0].blocks[0] media.unsupported"},
		"unknown part":     {req: llm.Request{Turns: appendText(&llm.Opaque{Protocol: "anthropic", Type: "search_result", Raw: "{}"})}, report: "refused turns[0].blocks[0] block.unknown"},
		"call of the user": {req: llm.Request{Turns: appendText(call("a", "f", "{}"))}, report: "refused turns[0].blocks[0] block.misplaced"},
		"text of a tool":   {req: llm.Request{Turns: []llm.Turn{{Role: llm.ToolRole, Blocks: []llm.Block{&llm.Text{Text: "x"}}}}}, report: "refused turns[0].blocks[0] block.misplaced"},
		"members inside":   {req: llm.Request{Turns: called([]llm.Block{call("a", "f", "{}")}, &llm.ToolResult{CallID: "a", Blocks: []llm.Block{&llm.Text{Text: "x", Meta: llm.Meta{Ext: llm.Ext{Protocol: "anthropic", Members: []llm.Member{{Name: "k", Value: "1"}, {Name: "isogloss.note", Value: "1"}}}}}}})}, want: `"content":"x"`, report: "dropped turns[1].blocks[0].k ext.unknown_field"},
		"vendor's tool":    {req: llm.Request{Turns: []llm.Turn{{Role: llm.Assistant, Blocks: []llm.Block{&llm.ServerCall{Protocol: "anthropic", Digest: "[searched]"}}}}}, want: `"content":"[searched]"`, report: "approximated turns[0].blocks[0] server_tool.digest"},

		"thought":          {req: llm.Request{Turns: []llm.Turn{{Role: llm.Assistant, Blocks: []llm.Block{&llm.Thought{Parts: []llm.ThoughtPart{{Text: "r"}}}, &llm.Text{Text: "x"}}}}}, want: `{"role":"assistant","content":"x"}`, report: "dropped turns[0].blocks[0] reasoning.foreign"},
		"thought wanted":   {req: llm.Request{Turns: []llm.Turn{{Role: llm.Assistant, Blocks: []llm.Block{&llm.Thought{Parts: []llm.ThoughtPart{{Text: "r"}}}, call("a", "f", "")}}}}, gates: protocol.Gates{ReasoningHistory: "reasoning_content"}, want: `"reasoning_content":"r"`},
		"redacted thought": {req: llm.Request{Turns: []llm.Turn{{Role: llm.Assistant, Blocks: []llm.Block{&llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Redacted, Data: "d", Origin: "anthropic"}}}}}}}}, gates: protocol.Gates{ReasoningHistory: "reasoning"}, want: `{"role":"assistant","content":""}`, report: "dropped turns[0].blocks[0] reasoning.foreign"},
		"sealed call": {req: llm.Request{Turns: []llm.Turn{{Role: llm.Assistant, Blocks: []llm.Block{&llm.ToolCall{CallID: "a", Kind: llm.FunctionTool, Name: "f", Args: "{}", Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "s", Origin: "gemini"}}}}}}}},
			gates: protocol.Gates{Carrier: true}, want: `"extra_content":{"google":{"thought_signature":"s"}}`},
		"sealed call elsewhere": {req: llm.Request{Turns: []llm.Turn{{Role: llm.Assistant, Blocks: []llm.Block{&llm.ToolCall{CallID: "a", Kind: llm.FunctionTool, Name: "f", Args: "{}", Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "s", Origin: "gemini"}}}}}}}},
			want: `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`, report: "dropped turns[0].blocks[0] seal.foreign"},

		"failed result": {req: llm.Request{Turns: called([]llm.Block{call("a", "f", "{}")}, &llm.ToolResult{CallID: "a", Name: "f", Failed: true, Blocks: []llm.Block{&llm.Text{Text: "no"}}})},
			want: `{"role":"tool","content":"[tool error]\nno","tool_call_id":"a"}`, report: "approximated turns[1].blocks[0] tool_result.error_as_text"},
		"results in one turn": {req: llm.Request{Turns: called([]llm.Block{call("a", "f", "{}"), call("b", "f", "{}")}, &llm.ToolResult{CallID: "b", Blocks: []llm.Block{png}}, &llm.ToolResult{CallID: "a", Blocks: []llm.Block{&llm.Text{Text: "1"}, &llm.Text{Text: "2"}}})},
			want:   `{"role":"tool","content":"[1 attachment(s) of this result follow in the next user message]","tool_call_id":"b"},{"role":"tool","content":"1\n2","tool_call_id":"a"},{"role":"user","content":[{"type":"text","text":"Attachment(s) of the result of tool call b:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`,
			report: "approximated turns[1].blocks[0] tool_result.media_split"},
		"id out of the alphabet": {req: llm.Request{Turns: called([]llm.Block{call("a b", "f", "{}")}, &llm.ToolResult{CallID: "a b", Missing: true})},
			want: `{"role":"tool","content":"","tool_call_id":"` + llm.SafeName("a b", maxID, idByte) + `"}`},
		"id of a server": {req: llm.Request{Turns: called([]llm.Block{call("tool/1", "f", "{}")}, &llm.ToolResult{CallID: "tool/1", Missing: true})},
			want: `"tool_call_id":"tool/1"}`},
		"id with the function's name": {req: llm.Request{Turns: called([]llm.Block{call("functions.mcp__files__read_directory_tree:10", "f", "{}")}, &llm.ToolResult{CallID: "functions.mcp__files__read_directory_tree:10", Missing: true})},
			want: `"tool_call_id":"functions.mcp__files__read_directory_tree:10"}`},
		"long id": {req: llm.Request{Turns: called([]llm.Block{call(strings.Repeat("i", 41), "f", "{}")}, &llm.ToolResult{CallID: strings.Repeat("i", 41), Missing: true})},
			want: `"tool_call_id":"` + llm.SafeName(strings.Repeat("i", 41), 40, idByte) + `"}`},
		"long id on OpenAI": {req: llm.Request{Turns: called([]llm.Block{call(strings.Repeat("i", 50), "f", "{}")}, &llm.ToolResult{CallID: strings.Repeat("i", 50), Missing: true})},
			want: `"tool_call_id":"` + llm.SafeName(strings.Repeat("i", 50), maxID, idByte) + `"}`},
		"long id of a server": {req: llm.Request{Turns: called([]llm.Block{call("chatcmpl-tool-"+strings.Repeat("0f", 16), "f", "{}")}, &llm.ToolResult{CallID: "chatcmpl-tool-" + strings.Repeat("0f", 16), Missing: true})},
			gates: protocol.Gates{LongIDs: true}, want: `"tool_call_id":"chatcmpl-tool-` + strings.Repeat("0f", 16) + `"}`},
		"orphan":     {req: llm.Request{Turns: called(nil, &llm.ToolResult{CallID: "a"})}, report: "refused turns[1].blocks[0] tool_result.orphan"},
		"unanswered": {req: llm.Request{Turns: append(called([]llm.Block{call("a", "f", "{}")}), appendText(&llm.Text{Text: "x"})...)}, report: "refused turns[0].blocks[0] tool_call.unanswered"},
		"hosted tool": {req: llm.Request{Tools: []llm.Tool{{Kind: llm.HostedTool, Hosted: "web_search", Raw: `{"type":"web_search_20250305"}`}}, ToolChoice: llm.ToolChoice{Mode: "auto"}},
			want: `"messages":[]}`, report: "dropped tools[0] tool.hosted"},
		"hosted tool forced": {req: llm.Request{Tools: []llm.Tool{{Kind: llm.FunctionTool, Name: "f"}}, ToolChoice: llm.ToolChoice{Mode: "hosted", Raw: `{}`}},
			want: `"tools":[{"type":"function","function":{"name":"f"}}]}`, report: "dropped tool_choice tool_choice.hosted"},
		"hosted tool alone": {req: llm.Request{Tools: []llm.Tool{{Kind: llm.HostedTool, Hosted: "x"}}, ToolChoice: llm.ToolChoice{Mode: "hosted", Raw: `{}`}},
			want: `"messages":[]}`, report: "dropped tools[0] tool.hosted\ndropped tool_choice tool_choice.hosted"},
		"validated choice": {req: llm.Request{Tools: []llm.Tool{{Kind: llm.FunctionTool, Name: "f"}}, ToolChoice: llm.ToolChoice{Mode: "validated"}},
			want: `"tool_choice":"auto"`, report: "approximated tool_choice tool_choice.validated"},
	} {
		t.Run(name, func(t *testing.T) {
			var report llm.Report
			out, err := Codec{}.EncodeRequest(&c.req, protocol.Target{Model: "m", Gates: c.gates}, &report)
			if got := strings.TrimSpace(protocoltest.DumpReport(&report)); got != c.report {
				t.Errorf("report %q, want %q", got, c.report)
			}
			if (err != nil) != (c.want == "") || !strings.Contains(string(out.Body), c.want) {
				t.Errorf("%v\n%s\nwant %s", err, out.Body, c.want)
			}
		})
	}
}

// The names under which tools are sent lead back to the client's own.
func TestEncodeToolNames(t *testing.T) {
	long := strings.Repeat("x", 80)
	req := &llm.Request{Tools: []llm.Tool{
		{Kind: llm.FunctionTool, Name: "plain"}, {Kind: llm.FunctionTool, Name: "a.b"}, {Kind: llm.FunctionTool, Name: "a/b"},
		{Kind: llm.FunctionTool, Name: "f", Namespace: "ns"}, {Kind: llm.CustomTool, Name: long},
	}}
	var report llm.Report
	out, err := Codec{}.EncodeRequest(req, protocol.Target{Model: "m"}, &report)
	if err != nil || len(report.Losses) > 0 {
		t.Fatalf("%v %v", err, report.Losses)
	}
	back := map[llm.ToolRef]bool{}
	for sent, ref := range out.Names {
		back[ref] = true
		if len(sent) > maxName || !strings.Contains(string(out.Body), `"name":"`+sent+`"`) {
			t.Errorf("%q is not how it was sent: %s", sent, out.Body)
		}
	}
	want := map[llm.ToolRef]bool{
		{Kind: llm.FunctionTool, Name: "a.b"}: true, {Kind: llm.FunctionTool, Name: "a/b"}: true,
		{Kind: llm.FunctionTool, Name: "f", Namespace: "ns"}: true, {Kind: llm.CustomTool, Name: long}: true,
	}
	if len(back) != len(want) || len(out.Names) != len(want) {
		t.Errorf("%v, want %v", back, want)
	}
	for ref := range want {
		if !back[ref] {
			t.Errorf("%v is not in %v", ref, out.Names)
		}
	}
}

// What answers of other protocols bring: the whole answer and the stream say the
// same (INV-1), and each reason has its word.
func TestEncodeForeignAnswer(t *testing.T) {
	text := func(s string) llm.Block { return &llm.Text{Text: s} }
	seal := func(form llm.SealForm, origin string) llm.Meta {
		return llm.Meta{Seals: []llm.Seal{{Form: form, Data: "d", Origin: origin}}}
	}
	for name, c := range map[string]struct {
		blocks []llm.Block
		stop   llm.StopKind
		want   string // parts of the whole answer, between bars
		report string
	}{
		"stop sequence":  {[]llm.Block{text("a")}, llm.StopSequence, `"finish_reason":"stop"`, "stop_reason.lossy"},
		"context window": {[]llm.Block{text("a")}, llm.ContextWindow, `"finish_reason":"length"`, "stop_reason.lossy"},
		"pause":          {[]llm.Block{text("a")}, llm.Pause, `"finish_reason":"length"`, "stop_reason.lossy"},
		"malformed":      {nil, llm.Malformed, `"content":""|"finish_reason":"stop"`, "stop_reason.lossy"},
		"other":          {[]llm.Block{text("a")}, llm.Other, `"finish_reason":"stop"`, "stop_reason.lossy"},
		"blocked":        {nil, llm.PromptBlocked, `"content":""|"finish_reason":"content_filter"`, "stop_reason.lossy"},
		"filter":         {[]llm.Block{text("a")}, llm.ContentFilter, `"finish_reason":"content_filter"`, ""},
		"refused":        {[]llm.Block{text("a")}, llm.Refused, `"finish_reason":"content_filter"`, "stop_reason.lossy"},
		"call, broken":   {[]llm.Block{&llm.ToolCall{CallID: "c", Kind: llm.FunctionTool, Name: "f\xff", Args: "{}"}}, llm.ToolUse, "\"name\":\"f\ufffd\"", "block.invalid"},
		"no address":     {[]llm.Block{&llm.Text{Text: "a", Citations: []llm.Citation{{Quote: "q"}}}}, llm.EndTurn, `"content":"a"`, "citation.no_url"},
		"own citation": {[]llm.Block{&llm.Text{Text: "a", Citations: []llm.Citation{{URL: "u", Protocol: own, Raw: `{"type":"url_citation","url_citation":{"url":"u"},"k":1}`}}}}, llm.EndTurn,
			`"annotations":[{"type":"url_citation","url_citation":{"url":"u"},"k":1}]`, ""},
		"refused, words": {[]llm.Block{&llm.Refusal{Text: "no"}}, llm.Refused, `"content":null|"refusal":"no"|"finish_reason":"stop"`, ""},
		"two texts":      {[]llm.Block{text("a"), text("b")}, llm.EndTurn, `"content":"ab"`, ""},
		"citations": {[]llm.Block{text("äö"), &llm.Text{Text: "xyz", Citations: []llm.Citation{{URL: "u", Title: "t"}, {Start: 1, End: 2, URL: "v"}}}}, llm.EndTurn,
			`"start_index":2,"end_index":5,"title":"t","url":"u"|"start_index":3,"end_index":4,"title":"","url":"v"`, ""},
		"thought, signed":    {[]llm.Block{&llm.Thought{Meta: seal(llm.Signature, "anthropic"), Parts: []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: "r"}, {Form: llm.SummaryReasoning, Text: "s"}}}, text("a")}, llm.EndTurn, `"reasoning_content":"rs"|"signature":"d","format":"anthropic-claude-v1"`, "reasoning.summary"},
		"thought, redacted":  {[]llm.Block{&llm.Thought{Meta: seal(llm.Redacted, "anthropic")}, text("a")}, llm.EndTurn, `{"type":"reasoning.encrypted","data":"d","format":"anthropic-claude-v1","index":0}`, ""},
		"thought, encrypted": {[]llm.Block{&llm.Thought{Meta: seal(llm.Encrypted, "openai-responses")}, text("a")}, llm.EndTurn, `"data":"d","format":"openai-responses-v1"`, ""},
		"text, signed":       {[]llm.Block{&llm.Text{Text: "a", Meta: seal(llm.Signature, "gemini")}}, llm.EndTurn, `"extra_content":{"google":{"thought_signature":"d"}}`, ""},
		"call, signed":       {[]llm.Block{&llm.ToolCall{CallID: "c", Kind: llm.FunctionTool, Name: "f", Meta: seal(llm.Signature, "gemini")}}, llm.ToolUse, `"arguments":"{}"|"extra_content":{"google":{"thought_signature":"d"}}|"finish_reason":"tool_calls"`, ""},
		"custom call":        {[]llm.Block{&llm.ToolCall{CallID: "c", Kind: llm.CustomTool, Name: "f"}}, llm.ToolUse, `"type":"custom","custom":{"name":"f","input":""}`, ""},
		"vendor's tool":      {[]llm.Block{&llm.ServerCall{Protocol: "anthropic", Type: "web_search_tool_result", Raw: "{}"}, text("a")}, llm.EndTurn, `"content":"a"`, "block.unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &llm.Response{ID: "r", Model: "m", Created: 7, Choices: []llm.Choice{{Blocks: c.blocks, Stop: llm.Stop{Kind: c.stop}}}}
			var report llm.Report
			body := Codec{}.EncodeResponse(resp, &llm.Request{}, &report)
			for _, want := range strings.Split(c.want, "|") {
				if !strings.Contains(string(body), want) {
					t.Errorf("%s\nwant %s", body, want)
				}
			}
			if got := protocoltest.DumpReport(&report); c.report == "" && got != "" || !strings.Contains(got, c.report) {
				t.Errorf("report %q, want %q", got, c.report)
			}
			stream := protocoltest.WriteStream(Codec{}, &llm.Request{}, llm.Explode(resp))
			if ending, err := protocoltest.Check(protocol.OpenAIChat, stream); err != nil || ending != protocoltest.Completed {
				t.Errorf("the stream ends %s: %v\n%s", ending, err, stream)
			}
			whole, lerr := Codec{}.DecodeResponse(body)
			events, err := protocoltest.ReadStream(Codec{}, strings.NewReader(string(stream)))
			if err != nil || lerr != nil {
				t.Fatal(err, lerr)
			}
			collected, err := protocoltest.Collect(events)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := agreed(whole), agreed(collected); a != b {
				t.Errorf("whole:\n%s\nstreamed:\n%s", a, b)
			}
		})
	}
}

// The citations of a choice are one list after its text: SDKs cannot join several, and a source may come before the text
// that it is of.
func TestStreamCitations(t *testing.T) {
	cite := func(index int, url string) llm.Event {
		return llm.Cite{Index: index, Citation: llm.Citation{URL: url}}
	}
	stream := string(protocoltest.WriteStream(Codec{}, &llm.Request{}, []llm.Event{
		llm.Start{ID: "r", Model: "m", Created: 7},
		llm.BlockStart{Block: &llm.Text{}}, cite(0, "u"), cite(0, "v"), llm.Delta{Text: "äö"}, llm.BlockEnd{},
		llm.BlockStart{Index: 1, Block: &llm.Text{}}, llm.Delta{Index: 1, Text: "xyz"}, cite(1, "w"), llm.BlockEnd{Index: 1},
		llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{},
	}))
	if ending, err := protocoltest.Check(protocol.OpenAIChat, []byte(stream)); err != nil || ending != protocoltest.Completed {
		t.Errorf("the stream ends %s: %v", ending, err)
	}
	const note = `{"type":"url_citation","url_citation":{"start_index":%d,"end_index":%d,"title":"","url":"%s"}}`
	want := `"annotations":[` + fmt.Sprintf(note+","+note+","+note, 0, 2, "u", 0, 2, "v", 2, 5, "w") + `]`
	if !strings.Contains(stream, want) {
		t.Errorf("%s\nwant %s", stream, want)
	}
}

// A client that declared functions gets one function_call, and not two.
func TestEncodeLegacyAnswer(t *testing.T) {
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(`{"model":"m","messages":[],"functions":[{"name":"f"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	resp := &llm.Response{ID: "r", Choices: []llm.Choice{{Stop: llm.Stop{Kind: llm.ToolUse}, Blocks: []llm.Block{
		&llm.ToolCall{CallID: "a", Kind: llm.FunctionTool, Name: "f", Args: `{"x":1}`}, &llm.ToolCall{CallID: "b", Kind: llm.FunctionTool, Name: "g", Args: `{}`},
	}}}}
	var report llm.Report
	body := string(Codec{}.EncodeResponse(resp, req, &report))
	if !strings.Contains(body, `"function_call":{"name":"f","arguments":"{\"x\":1}"}`) || strings.Contains(body, "tool_calls") || !strings.Contains(body, `"finish_reason":"function_call"`) || len(report.Losses) != 1 {
		t.Errorf("%s %v", body, report.Losses)
	}
	stream := string(protocoltest.WriteStream(Codec{}, req, llm.Explode(resp)))
	if strings.Count(stream, `"name":`) != 1 || strings.Contains(stream, "tool_calls") || !strings.Contains(stream, `"finish_reason":"function_call"`) {
		t.Error(stream)
	}
}

// agreed is a response without what a stream and a body differ in: ids that were
// made, and a model or tier that is named when the response has begun.
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

// TestThoughtsOfAMessage checks that a client's message gives each thought its own text and seals.
func TestThoughtsOfAMessage(t *testing.T) {
	const one, two = `{"type":"reasoning.text","signature":"S1","format":"anthropic-claude-v1","index":0}`, `{"type":"reasoning.text","text":"Two.","signature":"S2","format":"anthropic-claude-v1","index":2}`
	const redacted = `{"type":"reasoning.encrypted","data":"R1","format":"anthropic-claude-v1","index":1}`
	const unsealed = `{"type":"reasoning.text","text":"Two.","format":"unknown","index":1}`
	for name, c := range map[string]struct{ text, details, want string }{
		"one":                       {"One.", one, "One.|S1"},
		"two":                       {"One.Two.", one + "," + two, "One.|S1 Two.|S2"},
		"one of them redacted":      {"One.Two.", one + "," + redacted + "," + two, "One.|S1 |R1 Two.|S2"},
		"the first is redacted":     {"One.", redacted, "One.| |R1"},
		"the first has no seal":     {"One.Two.", two, "One.| Two.|S2"},
		"the second has no seal":    {"One.Two.", one + "," + unsealed, "One.|S1 Two.|"},
		"the client cut the text":   {"One.", one + "," + two, "One.|S1S2"},
		"all of the text in one":    {"Two.", two, "Two.|S2"},
		"details that are not ours": {"One.", `3,{"type":"x"}`, "One.|"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m","messages":[{"role":"assistant","reasoning_content":"` + c.text + `","reasoning_details":[` + c.details + `],"content":"x"}]}`
			req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range req.Turns[0].Blocks {
				if thought, ok := b.(*llm.Thought); ok {
					text := thought.Text("") + "|"
					for _, s := range thought.Seals {
						text += s.Data
					}
					got = append(got, text)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
