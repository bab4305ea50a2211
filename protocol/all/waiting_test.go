package all

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/completions"
)

// list joins n texts in which # is the position.
func list(n int, item string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(item, "#", strconv.Itoa(i)))
	}
	return b.String()
}

// The pieces: white space, and text that a JSON string escapes.
var (
	white   = strings.Repeat(" ", growth.PieceSize)
	letters = strings.Repeat("x", growth.PieceSize)
	slashes = strings.Repeat(`\\`, growth.PieceSize/2)
	halves  = strings.Repeat(`\ud83d`, growth.PieceSize/6)
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

	{protocol.Gemini, "sources of later texts", func(n int) []string {
		return append([]string{sourced(n, `{"segment":{"startIndex":90000000,"endIndex":90000001},"groundingChunkIndices":[0]}`)}, turns(n)...)
	}},
	{protocol.Gemini, "sources of all texts", func(n int) []string {
		return append([]string{sourced(n, `{"segment":{"startIndex":0,"endIndex":90000001},"groundingChunkIndices":[0]}`)}, turns(n)...)
	}},
	{protocol.Gemini, "sources of a long text", func(n int) []string {
		return []string{`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"` + strings.Repeat(letters, n/2) + `"}]}}]}`,
			sourced(n, `{"segment":{"startIndex":1,"endIndex":`+fmt.Sprint(n*growth.PieceSize/2)+`},"groundingChunkIndices":[0]}`),
			`{"candidates":[{"index":0,"finishReason":"STOP"}]}`}
	}},

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
	{protocol.OpenAIResponses, "items between a text", func(n int) []string {
		reasoning := piecesOf(`{"type":"response.output_text.delta","output_index":0,"item_id":"i","delta":"x"}`, `{"type":"response.output_item.added","output_index":#,"item":{"type":"reasoning","id":"r#","summary":[]}}`)
		return append(reasoning(n/2), piecesOf("", `{"type":"response.output_text.delta","delta":"`+letters+`"}`)(n/2)...)
	}},
	{protocol.OpenAIResponses, "ids of an item", piecesOf("", `{"type":"response.output_item.added","output_index":0,"item":{"id":"a"}}`, `{"type":"response.output_item.added","output_index":0,"item":{"id":"b"}}`)},
	{protocol.OpenAIResponses, "items of one index", piecesOf("", `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"i#","role":"assistant","content":[]}}`)},
}

// sourced returns an event with one source and half as many places that cite it.
func sourced(n int, place string) string {
	return `{"candidates":[{"index":0,"content":{"role":"model","parts":[]},"groundingMetadata":{"groundingChunks":[{"web":{"uri":"http://x","title":"y"}}],"groundingSupports":[` + list(n/2, place) + `]}}]}`
}

// turns returns half as many events, of texts and calls in turn.
func turns(n int) []string {
	return piecesOf("", `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"x"}]}}]}`,
		`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}}}]}}]}`)(n / 2)
}

// TestWaitingDecoders decodes 1 MiB of each input that a decoder waits in the middle of.
func TestWaitingDecoders(t *testing.T) {
	for _, w := range waiting {
		in := codecOf(t, w.in)
		lists := map[int][]string{growth.Pieces: w.events(growth.Pieces), growth.Pieces / 8: w.events(growth.Pieces / 8)}
		t.Run(fmt.Sprintf("%s/%s", w.in, w.name), func(t *testing.T) {
			growth.Linear(t, func(n int) {
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

// held are streams of which a tap or an assembler could keep a part of every event.
var held = []struct {
	in     protocol.Name
	name   string
	events func(n int) []string
}{
	{protocol.OpenAIChat, "text", piecesOf("", chatDelta(`"content":"`+letters+`"`))},
	{protocol.OpenAIChat, "texts of all kinds", piecesOf("", chatDelta(`"content":"x"`), chatDelta(`"reasoning":"x","y#":"z"`))},
	{protocol.OpenAIChat, "finish reasons", piecesOf("", `{"id":"1","model":"m","choices":[{"index":#,"delta":{},"finish_reason":"stop"}],"usage":{"x#":1}}`)},
	{protocol.OpenAIChat, "audio", piecesOf("", chatDelta(`"audio":{"id":"a#"}`))},
	{protocol.Anthropic, "counts", piecesOf("", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"x#":1}}`)},
	{protocol.Anthropic, "containers", piecesOf("", `{"type":"message_delta","delta":{"container":{"id":"c#"}}}`)},
	{protocol.Anthropic, "members", piecesOf("", `{"type":"message_delta","delta":{},"x#":1}`)},
	{protocol.Converse, "members", piecesOf("", `{"metadata":{"x#":1,"usage":{"inputTokens":1}}}`)},
	{protocol.Gemini, "finish reasons", piecesOf("", `{"candidates":[{"index":#,"finishReason":"STOP","content":{"parts":[]}}]}`)},
	{protocol.Gemini, "tokens", piecesOf("", `{"candidates":[{"index":0,"continuationToken":"t#"}],"usageMetadata":{"x#":1}}`)},
	{protocol.Gemini, "members", piecesOf("", `{"x#":1,"candidates":[{"index":0,"y#":1}]}`)},
	{protocol.OpenAIResponses, "snapshots", piecesOf("", `{"type":"response.in_progress","response":{"id":"r","status":"in_progress","output":[{"id":"i#","type":"message"}]}}`)},
}

// TestWaitingTaps gives 1 MiB of small events to taps and assemblers.
func TestWaitingTaps(t *testing.T) {
	for _, w := range held {
		lists := map[int][]string{growth.Pieces: w.events(growth.Pieces), growth.Pieces / 8: w.events(growth.Pieces / 8)}
		t.Run(fmt.Sprintf("%s/%s", w.in, w.name), func(t *testing.T) {
			growth.Linear(t, func(n int) {
				d, assembler := dialectOf(t, w.in), codec.Assembler(nil)
				if d.NewAssembler != nil {
					assembler = d.NewAssembler()
				}
				tap := d.Codec.NewTap(1)
				for _, data := range lists[n] {
					tap.Event([]byte(data))
					if assembler != nil {
						assembler.Event([]byte(data))
					}
				}
				tap.Summary()
				if assembler != nil {
					assembler.Complete([]byte(`{"candidates":[{"index":0}]}`))
				}
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

// together returns the events of calls that begin, and then end, behind a text that has not ended.
func together(n int) []llm.Event {
	events := []llm.Event{llm.Start{ID: "1", Model: "m"}, llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "x"}}
	calls := min(n/2, codec.MaxOpenBlocks) // which is what a decoder has open at most
	for i := range n / 2 {
		events = append(events, llm.BlockStart{Index: i + 1, Block: llm.CopyBlock(function)}, llm.Delta{Index: i + 1, Text: "{}"})
		if open := i + 1 - calls; open >= 0 {
			events = append(events, llm.BlockEnd{Index: open + 1})
		}
	}
	return append(events, llm.ChoiceEnd{}, llm.End{})
}

var function = &llm.ToolCall{CallID: "c", Kind: llm.FunctionTool, Name: "f"}

// waitingEvents are streams for encoders.
var waitingEvents = []struct {
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
	{"sources", func(n int) []llm.Event {
		return repeated(&llm.Text{}, strings.Repeat(letters, n), func(i int) llm.Event {
			return llm.Cite{Citation: llm.Citation{Start: i, End: n * growth.PieceSize, URL: "http://x/" + strconv.Itoa(i)}}
		})(n)
	}},
	{"seals", repeated(&llm.Thought{}, "x", func(int) llm.Event {
		return llm.SealDelta{Seal: llm.Seal{Form: llm.Signature, Origin: "x", Data: letters}}
	})},
	{"members", repeated(&llm.Text{}, "", func(i int) llm.Event {
		return llm.Members{Choice: llm.Whole, Index: llm.Whole, Ext: llm.Ext{Protocol: "x", Members: []llm.Member{{Name: "x" + strconv.Itoa(i), Value: "1"}}}}
	})},
	{"choices", func(n int) []llm.Event {
		events := []llm.Event{llm.Start{ID: "1", Model: "m"}}
		for i := range n / 2 {
			events = append(events, llm.BlockStart{Choice: i % 1024, Index: i / 1024, Block: &llm.Text{}}, llm.Delta{Choice: i % 1024, Index: i / 1024, Text: "x"})
		}
		return append(events, llm.End{})
	}},
	{"calls behind a text", together},
}

// TestWaitingEncoders encodes 1 MiB of each input that an encoder holds back.
func TestWaitingEncoders(t *testing.T) {
	encoders := map[string]func(*llm.Request) protocol.StreamEncoder{
		"array": dialectOf(t, protocol.Gemini).NewArrayEncoder, "completions": completions.Codec{}.NewStreamEncoder,
	}
	for _, c := range Codecs() {
		encoders[string(c.Name())] = c.NewStreamEncoder
	}
	for _, c := range waitingEvents {
		lists := map[int][]llm.Event{growth.Pieces: c.events(growth.Pieces), growth.Pieces / 8: c.events(growth.Pieces / 8)}
		for name, encoder := range encoders {
			t.Run(fmt.Sprintf("%s/%s", name, c.name), func(t *testing.T) {
				growth.Linear(t, func(n int) {
					s := encoder(&llm.Request{Model: "m"})
					var to []byte
					for _, e := range lists[n] {
						to = s.Encode(e, to[:0])
					}
				})
			})
		}
		t.Run("collector/"+c.name, func(t *testing.T) {
			growth.Linear(t, func(n int) {
				var all llm.Collector
				for _, e := range lists[n] {
					if err := all.Add(e); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := all.Response(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestCitationsAreBounded cites a source of 100 KB again and again, in each way in which few bytes can.
func TestCitationsAreBounded(t *testing.T) {
	url := "http://x/" + strings.Repeat("y", 100<<10)
	text := `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"` + letters + `"}]}}]}`
	for name, c := range map[string]struct {
		supports string
		texts    int
	}{
		"indexes":  {`{"segment":{"startIndex":1,"endIndex":9},"groundingChunkIndices":[` + list(50_000, "0") + `]}`, 1},
		"segments": {list(1000, `{"segment":{"startIndex":#,"endIndex":99999},"groundingChunkIndices":[0]}`), 1},
		"texts":    {`{"segment":{"startIndex":1,"endIndex":99999},"groundingChunkIndices":[0]}`, 2000},
	} {
		stream := []string{`{"candidates":[{"index":0,"groundingMetadata":{"groundingChunks":[{"web":{"uri":"` + url + `"}}],"groundingSupports":[` + c.supports + `]}}]}`}
		stream = append(append(stream, slices.Repeat(append([]string{text}, turns(4)...), c.texts)...), `{"candidates":[{"index":0,"finishReason":"STOP"}]}`)
		for _, out := range Codecs() {
			if out.Name() == protocol.Gemini {
				continue // writes each source once
			}
			decoder, encoder := codecOf(t, protocol.Gemini).NewStreamDecoder(), out.NewStreamEncoder(&llm.Request{Model: "m"})
			read, written, last := 0, 0, llm.Event(nil)
			encode := func(events []llm.Event) {
				for _, e := range events {
					written += len(encoder.Encode(e, nil))
					last = e
				}
			}
			for _, data := range stream {
				read += len(data)
				encode(decoder.Decode(nil, []byte(data), nil))
			}
			encode(decoder.Finish(nil))
			if _, complete := last.(llm.End); !complete || written > 10<<20+20*read {
				t.Errorf("%s to %s: %d bytes of %d, %v", name, out.Name(), written, read, last)
			}
		}
	}
}

// TestWaitingNames restores a custom tool whose input begins with 1 MiB of white space.
func TestWaitingNames(t *testing.T) {
	growth.Linear(t, func(n int) {
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
	return dialectOf(t, name).Codec
}
