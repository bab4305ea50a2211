package anthropic

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

func sealed(form llm.SealForm, data, origin string) llm.Seal {
	return llm.Seal{Form: form, Data: data, Origin: origin}
}

// The usual beginning and end of an answer.
func answering(events ...llm.Event) []llm.Event {
	return append([]llm.Event{llm.Start{ID: "chatcmpl-1", Model: "m"}}, events...)
}

func ended(kind llm.StopKind) []llm.Event {
	return []llm.Event{llm.UsageUpdate{Usage: llm.Usage{Input: 25, CacheRead: 75, Output: 9, Reasoning: 4}}, llm.ChoiceEnd{Stop: llm.Stop{Kind: kind}}, llm.End{}}
}

func begins(i int, b llm.Block) llm.Event { return llm.BlockStart{Index: i, Block: b} }
func says(i int, text string) llm.Event   { return llm.Delta{Index: i, Text: text} }
func ends(i int) llm.Event                { return llm.BlockEnd{Index: i} }
func seals(i int, s llm.Seal) llm.Event   { return llm.SealDelta{Index: i, Seal: s} }
func part(i, p int, text string) llm.Event {
	return llm.Delta{Index: i, Part: p, Form: "summary", Text: text}
}
func with(a []llm.Event, b ...llm.Event) []llm.Event { return append(a, b...) }

// foreignStreams are streams of other protocols. What a client sees of each is in
// testdata/streams.
var foreignStreams = map[string]struct {
	about  string
	events []llm.Event
}{
	"calls_woven": {"INV-7, INV-8, USE-01: calls whose arguments come in turns; blocks go out one after the other", with(answering(
		begins(0, call("a", "f", "")), begins(1, call("b", "g", "")), says(1, `{"x"`), says(0, `{"a":`), begins(2, call("c", "h", "")), says(1, ":2}"), says(2, "{}"), ends(2), says(0, "1.10}"), ends(1), ends(0)),
		ended(llm.ToolUse)...)},
	"arguments": {"ANT-29: arguments that are no object, and none at all", with(answering(
		begins(0, call("a", "f", "")), ends(0), begins(1, call("b", "f", "")), says(1, " nu"), says(1, "ll"), ends(1), begins(2, call("c", "f", "")), says(2, `"{\"x\":1`), says(2, `.10}"`), ends(2),
		begins(3, call("d", "f", "")), says(3, " {"), says(3, `"a":1}`), ends(3), begins(4, call("functions.e:0", "f", "")), says(4, "[1]"), ends(4),
		begins(5, &llm.ToolCall{CallID: "g", Kind: llm.CustomTool, Name: "patch"}), says(5, "a \"b\""), says(5, "\n"), ends(5)),
		ended(llm.EndTurn)...)},
	"arguments_cut": {"JSN-08, JSN-17: arguments that the limit has cut off go out as they are", with(answering(
		begins(0, call("a", "f", "")), says(0, `{"a":"x\`), says(0, `n`), ends(0)), ended(llm.MaxTokens)...)},
	"reasoning_unsigned": {"ANT-09: reasoning without a signature has an empty one, and no signature_delta", with(answering(
		begins(0, &llm.Thought{}), says(0, "hm, "), says(0, "well"), ends(0), begins(1, &llm.Text{}), says(1, ""), says(1, "Hi"), ends(1)), ended(llm.EndTurn)...)},
	"reasoning_parts": {"summaries in parts", with(answering(
		begins(0, &llm.Thought{}), part(0, 0, "one"), part(0, 1, "two"), part(0, 1, "!"), seals(0, sealed(llm.Encrypted, "ENC", "openai-responses")), ends(0)), ended(llm.EndTurn)...)},
	"reasoning_sealed": {"sealed reasoning without text is carried by the event that SDKs keep", with(answering(
		begins(0, &llm.Thought{}), seals(0, sealed(llm.Encrypted, "ENC", "openai-responses")), ends(0), begins(1, &llm.Thought{}), ends(1)), ended(llm.EndTurn)...)},
	"signatures_late": {"ANT-12: a late signature opens no block of its own", with(answering(
		begins(0, &llm.Text{}), says(0, "It is sunny."), seals(0, sealed(llm.Signature, "G1", "gemini")), ends(0),
		begins(1, &llm.ToolCall{CallID: "call_1", Synthetic: true, Kind: llm.FunctionTool, Name: "f"}), says(1, `{"x":1}`), seals(1, sealed(llm.Signature, "G2", "gemini")), ends(1),
		begins(2, &llm.ToolCall{Meta: llm.Meta{Seals: []llm.Seal{sealed(llm.Signature, "G3", "gemini")}}, CallID: "call_2", Kind: llm.FunctionTool, Name: "f"}), says(2, `{}`), ends(2),
		begins(3, &llm.Text{}), seals(3, sealed(llm.Signature, "G4", "gemini")), ends(3)), ended(llm.ToolUse)...)},
	"blocks_without_place": {"refusals, media and other vendors' tools", with(answering(
		begins(0, &llm.Refusal{}), says(0, "No."), ends(0), begins(1, &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "AAAA"}), ends(1),
		begins(2, &llm.ServerCall{Protocol: "openai-responses", Type: "web_search_call", Raw: "{}"}), ends(2), begins(3, &llm.Opaque{Protocol: "gemini", Type: "x", Raw: "{}"}), ends(3)), ended(llm.ContentFilter)...)},
	"other_choices": {"a second choice has no place", with(answering(
		begins(0, &llm.Text{}), llm.BlockStart{Choice: 1, Block: &llm.Text{}}, llm.Delta{Choice: 1, Text: "other"}, says(0, "mine"), ends(0), llm.BlockEnd{Choice: 1}, llm.ChoiceEnd{Choice: 1, Stop: llm.Stop{Kind: llm.MaxTokens}}), ended(llm.EndTurn)...)},
	"order_broken": {"whatever comes in whatever order, the client sees a legal stream", []llm.Event{llm.Ping{},
		begins(0, &llm.Text{}), says(7, "nobody's"), says(0, "a"), begins(1, &llm.Text{}), says(1, "b"), llm.Ping{}, ends(1), ends(1), says(1, "late"), llm.End{}, says(0, "after"), llm.End{}}},
	"nothing": {"USE-17: an answer without content and without usage", answering(llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{})},
}

func TestForeignStreams(t *testing.T) {
	for name, c := range foreignStreams {
		t.Run(name, func(t *testing.T) {
			stream := protocoltest.WriteStream(Codec{}, &llm.Request{Model: "asked"}, c.events)
			if ending, err := protocoltest.Check(protocol.Anthropic, stream); err != nil || ending != protocoltest.Completed {
				t.Errorf("%s, %v", ending, err)
			}
			got := txtar.Format(&txtar.Archive{Comment: []byte(c.about + "\n"), Files: []txtar.File{{Name: "client.sse", Data: stream}}})
			file := filepath.Join("testdata", "streams", name+".txtar")
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

// TestForeignStreamIsItsAnswer: a client sees the same in a stream as in the whole
// answer (INV-1).
func TestForeignStreamIsItsAnswer(t *testing.T) {
	for name, c := range foreignStreams {
		if name == "order_broken" || name == "signatures_late" || name == "reasoning_parts" { // no answer; seals that a stream's client loses
			continue
		}
		resp, err := protocoltest.Collect(c.events)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		streamed, err := collected(t, protocoltest.WriteStream(Codec{}, nil, c.events))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if whole := (Codec{}).EncodeResponse(resp, nil, &llm.Report{}); !sameJSON(t, streamed, whole) {
			t.Errorf("%s: streamed\n%s\nwhole\n%s", name, pretty(t, streamed), pretty(t, whole))
		}
	}
}

// TestWholeAnswerCarriesSeals: a client that sends its answer back brings the seals
// that it got.
func TestWholeAnswerCarriesSeals(t *testing.T) {
	resp, err := protocoltest.Collect(foreignStreams["signatures_late"].events)
	if err != nil {
		t.Fatal(err)
	}
	back, bad := Codec{}.DecodeResponse(Codec{}.EncodeResponse(resp, nil, &llm.Report{}))
	if bad != nil {
		t.Fatal(bad)
	}
	for i, b := range resp.Choices[0].Blocks {
		want := b.Common().Seals[0]
		if got, _ := back.Choices[0].Blocks[i].Common().SealFor("gemini"); got != want {
			t.Errorf("block %d: %+v, want %+v", i, got, want)
		}
	}
}

// TestStops holds appendix A, both ways.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		stop   llm.Stop
		called bool
		want   string
	}{
		{llm.Stop{Kind: llm.EndTurn}, false, "end_turn"},
		{llm.Stop{Kind: llm.EndTurn}, true, "tool_use"},
		{llm.Stop{Kind: llm.ToolUse}, false, "end_turn"},
		{llm.Stop{Kind: llm.ToolUse}, true, "tool_use"},
		{llm.Stop{Kind: llm.MaxTokens}, true, "max_tokens"},
		{llm.Stop{Kind: llm.ContentFilter}, true, "refusal"},
		{llm.Stop{Kind: llm.PromptBlocked}, false, "refusal"},
		{llm.Stop{Kind: llm.ContextWindow}, false, "model_context_window_exceeded"},
		{llm.Stop{Kind: llm.Pause}, false, "pause_turn"},
		{llm.Stop{Kind: llm.Other, Raw: "compaction"}, false, "compaction"},
		{llm.Stop{Kind: llm.Malformed, Raw: "MALFORMED_FUNCTION_CALL"}, false, "malformed_function_call"},
		{llm.Stop{Kind: llm.Other, Raw: "?"}, false, "end_turn"},
		{llm.Stop{}, false, "end_turn"},
	} {
		if got := blockcodec.EncodeStop(stops, c.stop, c.called); got != c.want {
			t.Errorf("%+v: %s, want %s", c.stop, got, c.want)
		}
	}
	for reason, want := range map[string]llm.StopKind{
		"end_turn": llm.EndTurn, "tool_use": llm.EndTurn, "": llm.EndTurn, "max_tokens": llm.MaxTokens, "refusal": llm.Refused,
		"pause_turn": llm.Pause, "compaction": llm.Other, "model_context_window_exceeded": llm.ContextWindow,
	} {
		if got := decodeStop(reason, "", StopDetails{}, false); got.Kind != want || got.Raw != reason {
			t.Errorf("%q without a call: %+v, want %s", reason, got, want)
		}
	}
	for reason, want := range map[string]llm.StopKind{"end_turn": llm.ToolUse, "tool_use": llm.ToolUse, "": llm.ToolUse, "max_tokens": llm.MaxTokens, "refusal": llm.Refused} {
		if got := decodeStop(reason, "", StopDetails{}, true); got.Kind != want {
			t.Errorf("%q with a call: %+v, want %s", reason, got, want)
		}
	}
}

// TestCallsEndWithToolUse checks that a response with calls says so, also if its upstream calls that a plain stop.
func TestCallsEndWithToolUse(t *testing.T) {
	resp := &llm.Response{ID: "msg_1", Model: "m", Usage: &llm.Usage{}, Choices: []llm.Choice{{
		Blocks: []llm.Block{&llm.ToolCall{CallID: "toolu_1", Kind: llm.FunctionTool, Name: "f", Args: "{}"}}, Stop: llm.Stop{Kind: llm.EndTurn},
	}}}
	if body := string(Codec{}.EncodeResponse(resp, &llm.Request{}, &llm.Report{})); !strings.Contains(body, `"stop_reason":"tool_use"`) {
		t.Error(body)
	}
}

// TestEventsWaitOnlyOnce: what has waited for its turn is written once.
func TestEventsWaitOnlyOnce(t *testing.T) {
	s := &streamEncoder{}
	var out []byte
	for _, e := range foreignStreams["calls_woven"].events {
		out = s.Encode(e, out)
	}
	if n := strings.Count(string(out), `"partial_json"`); n != 5 {
		t.Errorf("%d pieces of arguments, want 5", n)
	}
}
