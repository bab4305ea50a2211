package all

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/growth"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Streams in small pieces of 1 MiB together. A decoder or an encoder that reads again what it has
// held back takes eight times as long for one of them as for eight with an eighth of the pieces.
const (
	pieces    = 32 << 10
	pieceSize = 32
	parts     = 8
	costs     = 5 // times the control
)

// costsGrow fails if work on all pieces takes much more time than the same on parts of them.
func costsGrow(t *testing.T, work func(n int)) {
	growth.CostsAtMost(t, costs, func() { work(pieces) }, func() {
		for range parts {
			work(pieces / parts)
		}
	})
}

// The pieces: white space, and text that a JSON string escapes.
var (
	white   = strings.Repeat(" ", pieceSize)
	letters = strings.Repeat("x", pieceSize)
	slashes = strings.Repeat(`\\`, pieceSize/2)
	halves  = strings.Repeat(`\ud83d`, pieceSize/6)
)

// piecesOf returns the events of a stream: one before, and n times the next ones in turn, in which # is
// their number.
func piecesOf(before string, next ...string) func(n int) []string {
	return func(n int) []string {
		list := make([]string, 0, n+1)
		if before != "" {
			list = append(list, before)
		}
		for i := range n {
			list = append(list, strings.ReplaceAll(next[i%len(next)], "#", fmt.Sprint(i)))
		}
		return list
	}
}

// chatDelta returns a chunk with members of a delta.
func chatDelta(members string) string {
	return `{"id":"1","model":"m","choices":[{"index":0,"delta":{` + members + `}}]}`
}

// waiting are streams that never come to an end of what they are in the middle of.
var waiting = []struct {
	in     protocol.Name
	name   string
	events func(n int) []string
}{
	{protocol.OpenAIChat, "text", piecesOf("", chatDelta(`"content":"`+letters+`"`))},
	{protocol.OpenAIChat, "white text", piecesOf("", chatDelta(`"content":"`+white+`"`))},
	{protocol.OpenAIChat, "escapes", piecesOf("", chatDelta(`"content":"`+slashes+`"`))},
	{protocol.OpenAIChat, "halves of characters", piecesOf("", chatDelta(`"content":"`+halves+`"`))},
	{protocol.OpenAIChat, "reasoning", piecesOf("", chatDelta(`"reasoning_content":"`+white+`"`))},
	{protocol.OpenAIChat, "text and reasoning in turn", piecesOf("", chatDelta(`"content":"x"`), chatDelta(`"reasoning":"x"`))},
	{protocol.OpenAIChat, "white arguments", piecesOf(chatDelta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]`),
		chatDelta(`"tool_calls":[{"index":0,"function":{"arguments":"`+white+`"}}]`))},
	{protocol.OpenAIChat, "arguments without an end", piecesOf(chatDelta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":\""}}]`),
		chatDelta(`"tool_calls":[{"index":0,"function":{"arguments":"`+letters+`"}}]`))},
	{protocol.OpenAIChat, "arguments of changing ids", piecesOf(chatDelta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]`),
		chatDelta(`"tool_calls":[{"index":0,"id":"c#","function":{"arguments":"`+letters+`"}}]`))},
	{protocol.OpenAIChat, "arguments before a name", piecesOf("", chatDelta(`"tool_calls":[{"index":0,"function":{"arguments":"`+letters+`"}}]`))},
	{protocol.OpenAIChat, "name", piecesOf("", chatDelta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"`+letters+`#"}}]`))},
	{protocol.OpenAIChat, "function_call", piecesOf(chatDelta(`"function_call":{"name":"f"}`), chatDelta(`"function_call":{"arguments":"`+white+`"}`))},
	{protocol.OpenAIChat, "unknown members", piecesOf("", chatDelta(`"x#":"`+letters+`"`))},

	{protocol.Anthropic, "text", piecesOf(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+letters+`"}}`)},
	{protocol.Anthropic, "white arguments", piecesOf(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"`+white+`"}}`)},
	{protocol.Anthropic, "input of a server's tool", piecesOf(`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"c","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"`+white+`"}}`)},
	{protocol.Anthropic, "members of an unknown block", piecesOf(`{"type":"content_block_start","index":0,"content_block":{"type":"new","a":"`+strings.Repeat("x", 100<<10)+`"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","x#":"`+letters+`"}}`)},
	{protocol.Anthropic, "signatures", piecesOf(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"`+letters+`"}}`)},
	{protocol.Anthropic, "open blocks", piecesOf("", `{"type":"content_block_start","index":#,"content_block":{"type":"text","text":"x"}}`)},
	{protocol.Anthropic, "members of the end", piecesOf("", `{"type":"message_delta","delta":{"x#":"`+letters+`"},"usage":{"y#":1}}`)},

	{protocol.Gemini, "text", piecesOf("", `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"`+letters+`"}]}}]}`)},
	{protocol.Gemini, "white text", piecesOf("", `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"`+white+`"}]}}]}`)},
	{protocol.Gemini, "arguments in pieces", piecesOf(`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}`,
		`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"`+letters+`"}],"willContinue":true}}]}}]}`)},
	{protocol.Gemini, "paths of arguments", piecesOf(`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}`,
		`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a#","stringValue":"x"}],"willContinue":true}}]}}]}`)},
	{protocol.Gemini, "calls", piecesOf("", `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}}}]}}]}`)},
	{protocol.Gemini, "candidates", piecesOf("", `{"candidates":[{"index":#,"content":{"role":"model","parts":[{"text":"`+letters+`"}]}}]}`)},

	{protocol.Converse, "text", piecesOf("", `{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"`+letters+`"}}}`)},
	{protocol.Converse, "white arguments", piecesOf(`{"contentBlockStart":{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"c","name":"f"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"toolUse":{"input":"`+white+`"}}}}`)},
	{protocol.Converse, "signature", piecesOf("", `{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"`+letters+`"}}}}`)},
	{protocol.Converse, "redacted reasoning", piecesOf("", `{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"redactedContent":"`+letters+`"}}}}`)},
	{protocol.Converse, "image", piecesOf(`{"contentBlockStart":{"contentBlockIndex":0,"start":{"image":{"format":"png"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"image":{"source":{"bytes":"`+letters+`"}}}}}`)},
	{protocol.Converse, "input of a server's tool", piecesOf(`{"contentBlockStart":{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"c","name":"f","type":"server_tool_use"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"toolUse":{"input":"`+white+`"}}}}`)},
	{protocol.Converse, "open blocks", piecesOf("", `{"contentBlockDelta":{"contentBlockIndex":#,"delta":{"text":"`+letters+`"}}}`)},

	{protocol.OpenAIResponses, "text", piecesOf("", `{"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"i","delta":"`+letters+`"}`)},
	{protocol.OpenAIResponses, "arguments before a name", piecesOf("", `{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"i","delta":"`+letters+`"}`)},
	{protocol.OpenAIResponses, "white arguments", piecesOf(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"i","call_id":"c","name":"f","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"i","delta":"`+white+`"}`)},
	{protocol.OpenAIResponses, "parts of a summary", piecesOf("", `{"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"i","summary_index":#,"delta":"`+letters+`"}`)},
	{protocol.OpenAIResponses, "parts of a text", piecesOf("", `{"type":"response.content_part.added","output_index":0,"item_id":"i","content_index":#,"part":{"type":"output_text","text":""}}`)},
	{protocol.OpenAIResponses, "open items", piecesOf("", `{"type":"response.output_text.delta","output_index":#,"content_index":0,"item_id":"i#","delta":"`+letters+`"}`)},
	{protocol.OpenAIResponses, "items of one index", piecesOf("", `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"i#","role":"assistant","content":[]}}`)},
}

// TestWaitingDecoders decodes 1 MiB of each input that a decoder waits in the middle of.
func TestWaitingDecoders(t *testing.T) {
	for _, w := range waiting {
		in := codecOf(t, w.in)
		lists := map[int][]string{pieces: w.events(pieces), pieces / parts: w.events(pieces / parts)}
		t.Run(fmt.Sprintf("%s/%s", w.in, w.name), func(t *testing.T) {
			costsGrow(t, func(n int) {
				d := in.NewStreamDecoder()
				var events []llm.Event
				for _, data := range lists[n] {
					events = d.Decode(nil, []byte(data), events[:0])
				}
				d.Finish(events[:0])
			})
		})
	}
}

// repeated returns the events of a block: text before, and n others.
func repeated(b llm.Block, before string, e func(i int) llm.Event) func(n int) []llm.Event {
	return func(n int) []llm.Event {
		events := []llm.Event{llm.Start{ID: "1", Model: "m"}, llm.BlockStart{Block: llm.CopyBlock(b)}}
		if before != "" {
			events = append(events, llm.Delta{Text: before})
		}
		for i := range n {
			events = append(events, e(i))
		}
		return append(events, llm.BlockEnd{}, llm.ChoiceEnd{}, llm.End{})
	}
}

// deltas returns the events of a block that has the text again and again.
func deltas(b llm.Block, text string) func(n int) []llm.Event {
	return repeated(b, "", func(int) llm.Event { return llm.Delta{Text: text} })
}

// blocks returns the events of half as many blocks, which end or do not.
func blocks(b llm.Block, end bool) func(n int) []llm.Event {
	return func(n int) []llm.Event {
		events := []llm.Event{llm.Start{ID: "1", Model: "m"}}
		for i := range n / 2 {
			events = append(events, llm.BlockStart{Index: i, Block: llm.CopyBlock(b)}, llm.Delta{Index: i, Text: "{}"})
			if end {
				events = append(events, llm.BlockEnd{Index: i})
			}
		}
		return append(events, llm.ChoiceEnd{}, llm.End{})
	}
}

// TestWaitingEncoders encodes 1 MiB of each input that an encoder holds back.
func TestWaitingEncoders(t *testing.T) {
	function := &llm.ToolCall{CallID: "c", Kind: llm.FunctionTool, Name: "f"}
	for _, c := range []struct {
		name   string
		events func(n int) []llm.Event
	}{
		{"white text", deltas(&llm.Text{}, white)},
		{"reasoning", deltas(&llm.Thought{}, white)},
		{"white arguments", deltas(function, white)},
		{"white space before other arguments", repeated(function, strings.Repeat(" ", 500<<10)+"x", func(int) llm.Event { return llm.Delta{Text: letters} })},
		{"input of a custom tool", deltas(&llm.ToolCall{CallID: "c", Kind: llm.CustomTool, Name: "f"}, letters)},
		{"parts of reasoning", repeated(&llm.Thought{}, "", func(i int) llm.Event { return llm.Delta{Text: letters, Part: i / 16} })},
		{"citations", repeated(&llm.Text{}, "", func(int) llm.Event { return llm.Cite{Citation: llm.Citation{URL: "http://x"}} })},
		{"log probabilities", repeated(&llm.Text{}, "", func(int) llm.Event { return llm.Logprobs{Raw: `{"token":"x","logprob":0}`} })},
		{"texts", blocks(&llm.Text{}, true)},
		{"open texts", blocks(&llm.Text{}, false)},
		{"calls", blocks(function, true)},
		{"open calls", blocks(function, false)},
	} {
		lists := map[int][]llm.Event{pieces: c.events(pieces), pieces / parts: c.events(pieces / parts)}
		for _, out := range Codecs() {
			t.Run(fmt.Sprintf("%s/%s", out.Name(), c.name), func(t *testing.T) {
				costsGrow(t, func(n int) {
					s := out.NewStreamEncoder(&llm.Request{Model: "m"})
					var to []byte
					for _, e := range lists[n] {
						to = s.Encode(e, to[:0])
					}
				})
			})
		}
	}
}

// TestWaitingNames restores a custom tool whose input begins with 1 MiB of white space.
func TestWaitingNames(t *testing.T) {
	costsGrow(t, func(n int) {
		u := llm.Undo{Names: map[string]llm.ToolRef{"f": {Name: "g", Kind: llm.CustomTool}}}
		u.Event(llm.BlockStart{Block: &llm.ToolCall{Name: "f", Kind: llm.FunctionTool}})
		for range n {
			if _, sent := u.Event(llm.Delta{Text: white}); sent {
				t.Fatal("white space was sent")
			}
		}
		if e, _ := u.Event(llm.Delta{Text: `{ "input" :"a"}`}); e != (llm.Delta{Text: "a"}) {
			t.Fatalf("%v", e)
		}
	})
}

func codecOf(t *testing.T, name protocol.Name) protocol.Translator {
	t.Helper()
	for _, c := range Codecs() {
		if c.Name() == name {
			return c
		}
	}
	t.Fatal(name)
	return nil
}
