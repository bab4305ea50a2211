package gemini

import (
	"bytes"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// What other protocols bring.

func say(role llm.Role, text string) llm.Turn {
	return llm.Turn{Role: role, Blocks: []llm.Block{&llm.Text{Text: text}}}
}

func calls(calls ...*llm.ToolCall) llm.Turn {
	t := llm.Turn{Role: llm.Assistant}
	for _, c := range calls {
		c.Kind = llm.FunctionTool
		t.Blocks = append(t.Blocks, c)
	}
	return t
}

func results(list ...*llm.ToolResult) llm.Turn {
	t := llm.Turn{Role: llm.ToolRole}
	for _, r := range list {
		t.Blocks = append(t.Blocks, r)
	}
	return t
}

func result(id, text string) *llm.ToolResult {
	return &llm.ToolResult{CallID: id, Blocks: []llm.Block{&llm.Text{Text: text}}}
}

func ptr[T any](v T) *T { return &v }

func TestForeignTurns(t *testing.T) {
	hi := say(llm.User, "Hi")
	sealed := llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "U2ln", Origin: own}}}
	for name, c := range map[string]struct {
		model  string
		turns  []llm.Turn
		want   string // the contents
		report string
	}{
		"GEM-05 CRQ-02 results in another order": {
			turns: []llm.Turn{
				hi, calls(&llm.ToolCall{CallID: "a", Name: "f", Args: `{"n":1.10}`}, &llm.ToolCall{CallID: "b", Name: "g"}),
				results(result("b", "15")), results(result("a", "12")), say(llm.User, "And now?"),
			},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{"n":1.10}}},{"functionCall":{"id":"b","name":"g","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"12"}}},{"functionResponse":{"id":"b","name":"g","response":{"result":"15"}}}]},` +
				`{"role":"user","parts":[{"text":"And now?"}]}]`,
		},
		"GEM-06 results of all kinds": {
			turns: []llm.Turn{
				hi, calls(&llm.ToolCall{CallID: "a", Name: "f"}, &llm.ToolCall{CallID: "b", Name: "f"}, &llm.ToolCall{CallID: "c", Name: "f"}, &llm.ToolCall{CallID: "d", Name: "f"}),
				results(result("a", `{"t": 12345678901234567890}`), result("b", `[1]`), &llm.ToolResult{CallID: "c", Failed: true, Blocks: []llm.Block{&llm.Text{Text: "disk full"}}}, &llm.ToolResult{CallID: "d"}),
			},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}}},{"functionCall":{"id":"b","name":"f","args":{}}},{"functionCall":{"id":"c","name":"f","args":{}}},{"functionCall":{"id":"d","name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"t": 12345678901234567890}}},{"functionResponse":{"id":"b","name":"f","response":{"result":"[1]"}}},` +
				`{"functionResponse":{"id":"c","name":"f","response":{"error":"disk full"}}},{"functionResponse":{"id":"d","name":"f","response":{"result":""}}}]}]`,
		},
		"CRQ-34 an id twice": {
			turns: []llm.Turn{
				hi, calls(&llm.ToolCall{CallID: "a", Name: "f"}), results(result("a", "1")),
				calls(&llm.ToolCall{CallID: "a", Name: "f"}), results(result("a", "2")),
			},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"1"}}}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"a_2","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"a_2","name":"f","response":{"result":"2"}}}]}]`,
		},
		"CRQ-04 CRQ-05 a call and a result alone": {
			turns:  []llm.Turn{hi, calls(&llm.ToolCall{CallID: "a", Name: "f"}), results(result("z", "1")), say(llm.User, "x")},
			report: "refused tool_call.unanswered turns\nrefused tool_result.orphan turns[2].blocks[0]\n",
		},
		"CRQ-09 CRQ-12 system text in the middle": {
			turns: []llm.Turn{say(llm.System, "s"), hi, say(llm.Developer, "rule"), say(llm.User, "Go"), say(llm.Assistant, "a"), say(llm.Assistant, "b")},
			want: `[{"role":"user","parts":[{"text":"Hi"},{"text":"<system>rule</system>"},{"text":"Go"}]},` +
				`{"role":"model","parts":[{"text":"a"},{"text":"b"}]}]`,
			report: "approximated turn.developer turns[2].role\napproximated system.mid_folded turns[2].blocks[0]\n",
		},
		"system text between call and result": {
			turns: []llm.Turn{hi, calls(&llm.ToolCall{CallID: "a", Name: "f"}), say(llm.System, "rule"), results(result("a", "1"))},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"1"}}}]},{"role":"user","parts":[{"text":"<system>rule</system>"}]}]`,
			report: "approximated system.mid_folded turns[2].blocks[0]\n",
		},
		"CRQ-13 the assistant begins": {
			turns:  []llm.Turn{say(llm.Assistant, "Hello"), hi},
			want:   `[{"role":"user","parts":[{"text":"(the conversation begins)"}]},{"role":"model","parts":[{"text":"Hello"}]},{"role":"user","parts":[{"text":"Hi"}]}]`,
			report: "approximated turns.user_inserted turns\n",
		},
		"GEM-28 turns that lose everything": {
			turns: []llm.Turn{hi, {Role: llm.Assistant, Blocks: []llm.Block{&llm.Thought{Parts: []llm.ThoughtPart{{Text: "x"}}}, &llm.Text{}}}, say(llm.User, "Go")},
			want:  `[{"role":"user","parts":[{"text":"Hi"},{"text":"Go"}]}]`, report: "dropped reasoning.foreign turns[1].blocks[0]\n",
		},
		"GEM-28 only system text": {turns: []llm.Turn{say(llm.System, "s")}, report: "refused turns.empty turns\n"},
		"GEM-07 seals come back on their part": {
			model: "gemini-3-pro",
			turns: []llm.Turn{hi, {Role: llm.Assistant, Blocks: []llm.Block{
				&llm.Text{Text: "Let me"}, &llm.ToolCall{Meta: sealed, CallID: "a", Name: "f"}, &llm.ToolCall{CallID: "b", Name: "f"}, &llm.Text{Meta: sealed},
			}}, results(result("a", "1"), result("b", "2"))},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},` +
				`{"role":"model","parts":[{"text":"Let me"},{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"U2ln"},{"functionCall":{"id":"b","name":"f","args":{}}},{"text":"","thoughtSignature":"U2ln"}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"1"}}},{"functionResponse":{"id":"b","name":"f","response":{"result":"2"}}}]}]`,
		},
		"GEM-08 foreign calls get one stand-in": {
			model: "gemini-3-pro",
			turns: []llm.Turn{hi, calls(&llm.ToolCall{CallID: "a", Name: "f"}, &llm.ToolCall{CallID: "b", Name: "f"}), results(result("a", "1"), result("b", "2"))},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"b","name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"1"}}},{"functionResponse":{"id":"b","name":"f","response":{"result":"2"}}}]}]`,
			report: "approximated seal.skipped turns[1].blocks[0]\n",
		},
		"JSN-17 arguments that are no object": {
			turns: []llm.Turn{hi, calls(&llm.ToolCall{CallID: "a", Name: "f", Args: `"{\"x\":1}"`}, &llm.ToolCall{CallID: "b", Name: "f", Args: `{"a":1`}, &llm.ToolCall{CallID: "c", Name: "f", Args: `[1]`}, &llm.ToolCall{CallID: "d", Name: "f", Args: "null"})},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{"x":1}}},{"functionCall":{"id":"b","name":"f","args":{"_raw":"{\"a\":1"}}},{"functionCall":{"id":"c","name":"f","args":{"value":[1]}}},{"functionCall":{"id":"d","name":"f","args":{}}}]}]`,
			report: "approximated args.wrapped turns[1].blocks[1].args\napproximated args.wrapped turns[1].blocks[2].args\n",
		},
		"CRQ-37 CRQ-39 CRQ-41 what cannot be sent": {
			turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{
				&llm.Media{Kind: llm.Image, URL: "https://example.com/a.png"}, &llm.Media{Kind: llm.File, FileID: "file-abc"},
				&llm.Opaque{Protocol: "anthropic", Type: "novelty"}, &llm.Media{Kind: llm.Image},
			}}},
			report: "refused media.url turns[0].blocks[0]\nrefused media.foreign_file turns[0].blocks[1]\nrefused block.unknown turns[0].blocks[2]\nrefused media.empty turns[0].blocks[3]\nrefused turns.empty turns\n",
		},
		"CRQ-35 CRQ-38 CRQ-40 media": {
			turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{
				&llm.Media{Kind: llm.Image, MIME: "image/jpg", Data: "aGk="}, &llm.Media{Kind: llm.File, MIME: "application/pdf", Data: "aGk=", Name: "a.pdf"},
				&llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: "aGk="}, &llm.Media{Kind: llm.File, Text: "doc"}, &llm.Media{Kind: llm.Video, URL: "https://youtu.be/x"},
				&llm.Media{Kind: llm.Image, Data: "iVBORw0KGgo="},
			}}},
			want: `[{"role":"user","parts":[{"inlineData":{"mimeType":"image/jpeg","data":"aGk="}},{"inlineData":{"mimeType":"application/pdf","data":"aGk="}},` +
				`{"inlineData":{"mimeType":"audio/wav","data":"aGk="}},{"inlineData":{"mimeType":"text/plain","data":"ZG9j"}},{"fileData":{"fileUri":"https://youtu.be/x"}},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}]`,
			report: "dropped media.name turns[0].blocks[1].name\napproximated document.as_file turns[0].blocks[3]\napproximated media.type_guessed turns[0].blocks[5]\n",
		},
		"CRQ-43 media in results": {
			turns: []llm.Turn{
				hi, calls(&llm.ToolCall{CallID: "a", Name: "f"}, &llm.ToolCall{CallID: "b", Name: "f"}),
				results(&llm.ToolResult{CallID: "a", Blocks: []llm.Block{&llm.Text{Text: "  ok\n"}, &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "aGk="}}}, result("b", "2")),
			},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}}},{"functionCall":{"id":"b","name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"  ok\n [the media follow]"}}},{"functionResponse":{"id":"b","name":"f","response":{"result":"2"}}}]},` +
				`{"role":"user","parts":[{"text":"from the call of f:"},{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}]`,
			report: "approximated tool_result.media_split turns[2]\n",
		},
		"media in results of newer models": {
			model: "models/gemini-3.1-flash",
			turns: []llm.Turn{
				hi, calls(&llm.ToolCall{Meta: sealed, CallID: "a", Name: "f"}),
				results(&llm.ToolResult{CallID: "a", Blocks: []llm.Block{&llm.Text{Text: "ok"}, &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "aGk="}}}),
			},
			want: `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"U2ln"}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"ok"},"parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}}]}]`,
		},
		"other vendors' tools, refusals and names": {
			turns: []llm.Turn{{Role: llm.User, Name: "bob", Blocks: []llm.Block{&llm.Text{Text: "Hi"}}}, {Role: llm.Assistant, Blocks: []llm.Block{
				&llm.ServerCall{Protocol: "anthropic", Digest: "searched"}, &llm.ServerCall{Protocol: "anthropic"}, &llm.Refusal{Text: "No."},
			}}},
			want:   `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"searched"},{"text":"No."}]}]`,
			report: "dropped turn.name turns[0].name\napproximated server_tool.digest turns[1].blocks[0]\ndropped server_tool.dropped turns[1].blocks[1]\napproximated refusal.as_text turns[1].blocks[2]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, report := encode(t, &llm.Request{Turns: c.turns}, c.model)
			if got := losses(report); got != c.report {
				t.Errorf("report:\n%swant:\n%s", got, c.report)
			}
			if c.want == "" {
				return
			}
			want := `{"contents":` + c.want
			if !strings.HasPrefix(string(out.Body), want) {
				t.Errorf("\n got %s\nwant %s", out.Body, want)
			}
			prefixes(t, c.turns, c.model)
		})
	}
}

// What was sent for earlier turns is sent again for later ones, to the byte, up
// to the brackets that close it: prompt caches depend on it.
func prefixes(t *testing.T, turns []llm.Turn, model string) {
	t.Helper()
	var before []byte
	for n := 1; n <= len(turns); n++ {
		out, err := Codec{}.EncodeRequest(&llm.Request{Turns: turns[:n]}, protocol.Target{Model: model}, &llm.Report{})
		if err != nil {
			continue // a call without its result, which nobody sends
		}
		if !bytes.HasPrefix(out.Body, before) {
			t.Errorf("%d turns:\n%s\ndo not begin as before:\n%s", n, out.Body, before)
		}
		body, _, _ := bytes.Cut(out.Body, []byte(`,"systemInstruction"`))
		before = bytes.TrimRight(body, "]}")
	}
}

func TestForeignRequest(t *testing.T) {
	turns := []llm.Turn{say(llm.User, "Hi")}
	const contents = `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]`
	weather := llm.Tool{Kind: llm.FunctionTool, Name: "get_weather", Description: "the weather", Schema: `{"type":"object","properties":{"city":{"type":"string"}}}`}
	weatherSent := `,"tools":[{"functionDeclarations":[{"name":"get_weather","description":"the weather","parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string"}}}}]}]`
	ref := []llm.ToolRef{{Kind: llm.FunctionTool, Name: "get_weather"}}
	for name, c := range map[string]struct {
		req    llm.Request
		target protocol.Target
		want   string // behind the contents
		report string
	}{
		"tools": {req: llm.Request{Tools: []llm.Tool{weather, {Kind: llm.FunctionTool, Name: "none", Schema: `{"type":"object","properties":{}}`}}},
			want: `,"tools":[{"functionDeclarations":[{"name":"get_weather","description":"the weather","parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string"}}}},{"name":"none"}]}]}`},
		"CRQ-26 choice none": {req: llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "none"}},
			want: weatherSent + `,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}`},
		"CRQ-27 choice required": {req: llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "required"}},
			want: weatherSent + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`},
		"CRQ-27 choice named": {req: llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "named", Names: ref}},
			want: weatherSent + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["get_weather"]}}}`},
		"choice allowed": {req: llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "allowed", Allowed: "auto", Names: ref}},
			want: weatherSent + `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","allowedFunctionNames":["get_weather"]}}}`},
		"choice cannot be forced": {req: llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "required"}, Parallel: ptr(false)},
			target: protocol.Target{Gates: protocol.Gates{NoForcedTool: true}},
			want:   weatherSent + `,"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}}`,
			report: "approximated tool_choice.forced_unsupported tool_choice\ndropped parallel.unsupported parallel\n"},
		"CRQ-29 a choice without tools": {req: llm.Request{ToolChoice: llm.ToolChoice{Mode: "required"}}, report: "refused tool_choice.without_tools tool_choice\n"},
		"auto without tools":            {req: llm.Request{ToolChoice: llm.ToolChoice{Mode: "auto"}, Parallel: ptr(true)}, want: "}"},
		"custom tool": {req: llm.Request{Tools: []llm.Tool{{Kind: llm.CustomTool, Name: "sh", Description: "runs", Grammar: `{"type":"grammar","syntax":"lark","definition":"start: X"}`}}},
			want:   `,"tools":[{"functionDeclarations":[{"name":"sh","description":"runs\nThe input must follow this lark grammar:\nstart: X","parametersJsonSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]}]}`,
			report: "approximated custom_tool.as_function tools[0]\napproximated grammar.lost tools[0].grammar\n"},
		"hosted tools": {req: llm.Request{Tools: []llm.Tool{{Kind: llm.HostedTool, Name: "web_search", Hosted: "web_search", Raw: `{}`}, {Kind: llm.HostedTool, Name: "computer", Hosted: "computer"}}},
			want:   `,"tools":[{"googleSearch":{}}]}`,
			report: "approximated tool.hosted_mapped tools[0]\ndropped tool.hosted tools[1]\n"},
		"settings": {req: llm.Request{
			Sampling: llm.Sampling{Temperature: "0", TopP: "0.90", TopK: "40", Seed: "3000000000", LogitBias: `{"1":1}`},
			Output:   llm.Output{MaxTokens: ptr(int64(100)), Choices: ptr(int64(1)), Stops: []string{"END", ""}, Verbosity: "low", Modalities: []string{"text"}},
			Service:  llm.Service{Tier: "default"}, Identity: llm.Identity{User: "u"}, Cache: llm.Cache{Key: "k"}, State: llm.State{Store: ptr(false)},
			Ext: llm.Ext{Protocol: "openai-chat", Members: []llm.Member{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}},
		},
			want: `,"generationConfig":{"temperature":0,"topP":0.90,"topK":40,"maxOutputTokens":100,"stopSequences":["END"],"seed":852516352},"serviceTier":"standard"}`,
			report: "approximated seed.folded sampling.seed\ndropped logit_bias.unsupported sampling.logit_bias\ndropped verbosity.unsupported output.verbosity\n" +
				"dropped cache.key_unsupported cache.key\ndropped user.dropped identity.user\ndropped ext.unknown_field ext.a\ndropped ext.unknown_field ext.b\n"},
		"CRQ-20 CRQ-25 what the model or the API refuses": {req: llm.Request{Sampling: llm.Sampling{Temperature: "1", TopK: "1"}, Output: llm.Output{Stops: []string{"1", "2", "3", "4", "5", "6"}, Choices: ptr(int64(9))}, State: llm.State{PreviousID: "r"}},
			target: protocol.Target{Gates: protocol.Gates{NoSampling: true}},
			report: "dropped temperature.unsupported_by_model sampling.temperature\ndropped top_k.unsupported_by_model sampling.top_k\nrefused choices.too_many output.choices\nrefused stop.too_many output.stops\nrefused state.previous_response state.previous_id\n"},
		"json object": {req: llm.Request{Output: llm.Output{Format: llm.Format{Kind: "json_object"}}}, want: `,"generationConfig":{"responseMimeType":"application/json"}}`},
		"json schema": {req: llm.Request{Output: llm.Output{Format: llm.Format{Kind: "json_schema", Name: "x", Schema: `{"type":"object","properties":{"a":{"type":"string","minLength":1}},"additionalProperties":false}`}}},
			want:   `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"a":{"type":"string","description":"minLength: 1"}},"additionalProperties":false}}}`,
			report: "approximated schema.keyword_moved output.format.schema\ndropped format.name output.format.name\n"},
		"effort, newer model": {req: llm.Request{Reasoning: llm.Reasoning{Effort: "medium"}}, target: protocol.Target{Model: "gemini-3-pro"},
			want: `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"MEDIUM"}}}`},
		"effort, model without it": {req: llm.Request{Reasoning: llm.Reasoning{Effort: "medium"}}, target: protocol.Target{Model: "gemini-3-pro", Gates: protocol.Gates{Efforts: []string{"low", "high"}}},
			want: `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}}}`, report: "approximated effort.nearest reasoning.effort\n"},
		"effort, model with xhigh": {req: llm.Request{Reasoning: llm.Reasoning{Effort: "xhigh"}}, target: protocol.Target{Model: "gemini-9-pro", Gates: protocol.Gates{Efforts: []string{"low", "medium", "high", "xhigh"}}},
			want: `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"XHIGH"}}}`},
		"effort, model without xhigh": {req: llm.Request{Reasoning: llm.Reasoning{Effort: "xhigh"}}, target: protocol.Target{Model: "gemini-3-pro"},
			want: `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}}}`, report: "approximated effort.nearest reasoning.effort\n"},
		"effort, older model": {req: llm.Request{Reasoning: llm.Reasoning{Effort: "high", Show: "none"}}, target: protocol.Target{Model: "gemini-2.5-flash"},
			want: `,"generationConfig":{"thinkingConfig":{"includeThoughts":false,"thinkingBudget":16384}}}`, report: "approximated effort.to_budget reasoning.effort\n"},
		"budget, newer model": {req: llm.Request{Reasoning: llm.Reasoning{Mode: "on", Budget: ptr(int64(5000))}}, target: protocol.Target{Model: "gemini-3-flash"},
			want: `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"MEDIUM"}}}`, report: "approximated effort.from_budget reasoning.budget\n"},
		"budget, older model": {req: llm.Request{Reasoning: llm.Reasoning{Mode: "on", Budget: ptr(int64(50000))}}, target: protocol.Target{Model: "gemini-2.5-flash"},
			want: `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24576}}}`, report: "approximated budget.clamped reasoning\n"},
		"off, newer model": {req: llm.Request{Reasoning: llm.Reasoning{Mode: "off"}}, target: protocol.Target{Model: "gemini-3-flash", Gates: protocol.Gates{Efforts: []string{"minimal"}}},
			want: `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"MINIMAL"}}}`, report: "approximated effort.cannot_be_off reasoning\n"},
		"off, older models": {req: llm.Request{Reasoning: llm.Reasoning{Effort: "none"}}, target: protocol.Target{Model: "gemini-2.5-pro"},
			want: `,"generationConfig":{"thinkingConfig":{"thinkingBudget":128}}}`, report: "approximated budget.clamped reasoning\n"},
		"GEM-34 nothing asked": {want: "}"},
	} {
		t.Run(name, func(t *testing.T) {
			report := &llm.Report{}
			c.req.Turns = turns
			out, err := Codec{}.EncodeRequest(&c.req, c.target, report)
			if got := losses(report); got != c.report {
				t.Errorf("report:\n%swant:\n%s", got, c.report)
			}
			if (err != nil) != strings.Contains(c.report, "refused") {
				t.Errorf("error %v", err)
			}
			if c.want != "" && string(out.Body) != contents+c.want {
				t.Errorf("\n got %s\nwant %s", out.Body, contents+c.want)
			}
		})
	}
}

// CRQ-32: names out of the alphabet are changed everywhere, can be told apart,
// and lead back.
func TestNames(t *testing.T) {
	long := "mcp." + strings.Repeat("x", 90)
	req := &llm.Request{
		Turns: []llm.Turn{say(llm.User, "Hi"), {Role: llm.Assistant, Blocks: []llm.Block{&llm.ToolCall{Kind: llm.FunctionTool, CallID: "a", Name: "read file"}}}, results(result("a", "1"))},
		Tools: []llm.Tool{
			{Kind: llm.FunctionTool, Name: "read file"}, {Kind: llm.FunctionTool, Name: "read/file"}, {Kind: llm.FunctionTool, Name: long},
			{Kind: llm.FunctionTool, Name: "1st"}, {Kind: llm.FunctionTool, Name: "_1st"}, {Kind: llm.FunctionTool, Name: "北京"},
			{Kind: llm.FunctionTool, Name: "run", Namespace: "ns"}, {Kind: llm.FunctionTool, Name: "a.b:c-d_e"}, {Kind: llm.CustomTool, Name: "sh"},
		},
		ToolChoice: llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{{Kind: llm.FunctionTool, Name: "read file"}}},
	}
	out, _ := encode(t, req, "m")
	seen := map[string]bool{}
	for _, tool := range req.Tools {
		ref := llm.ToolRef{Kind: tool.Kind, Name: tool.Name, Namespace: tool.Namespace}
		sent := toolName(ref)
		if seen[sent] || len(sent) > nameLimit || strings.ContainsAny(sent, " /") || sent[0] >= '0' && sent[0] <= '9' {
			t.Errorf("%s is sent as %s", tool.Name, sent)
		}
		seen[sent] = true
		if back, changed := out.Names[sent]; changed != (sent != tool.Name || tool.Kind == llm.CustomTool) || changed && back != ref {
			t.Errorf("%s leads back to %+v", sent, back)
		}
	}
	if n := strings.Count(string(out.Body), `"`+toolName(llm.ToolRef{Name: "read file"})+`"`); n != 4 {
		t.Errorf("the name is there %d times: declared, chosen, called and answered are 4", n)
	}
}

func TestTarget(t *testing.T) {
	for want, c := range map[string]struct {
		model, version string
		stream         bool
	}{
		"/v1beta/models/gemini-x:generateContent":           {"gemini-x", "", false},
		"/v1/models/gemini-x:streamGenerateContent?alt=sse": {"models/gemini-x", "v1", true},
		"/v1beta/tunedModels/t-1:generateContent":           {"tunedModels/t-1", "", false},
		"/v1beta/models/vendor/a%20b:c:generateContent":     {"vendor/a b:c", "", false},
		"/v1beta/models/x%3Fkey=1%23y:generateContent":      {"x?key=1#y", "", false},
	} {
		out, err := Codec{}.EncodeRequest(&llm.Request{Turns: []llm.Turn{say(llm.User, "x")}, Stream: c.stream}, protocol.Target{Model: c.model, Version: c.version}, &llm.Report{})
		if err != nil || out.Path != want {
			t.Errorf("%s: %s %v", c.model, out.Path, err)
		}
	}
}
