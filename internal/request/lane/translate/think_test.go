package translate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// thinkingCases are texts with the reasoning and the text that are separated.
var thinkingCases = []struct {
	mode                provider.ThinkTags
	in, reasoning, text string
	noThought, noText   bool
}{
	{mode: provider.ThinkStart, in: "<think>\nWhy é?\n\n so\n</think>\n\nBecause.\n", reasoning: "Why é?\n\n so", text: "Because.\n"},
	{mode: provider.ThinkStart, in: " \n<think>a</think>b</think>c", reasoning: "a", text: "b</think>c"},
	{mode: provider.ThinkStart, in: "<think>a < b </ c </thin </think>  x", reasoning: "a < b </ c </thin", text: "  x"},
	{mode: provider.ThinkStart, in: "<think></thi</think>x", reasoning: "</thi", text: "x"},
	{mode: provider.ThinkStart, in: "<think>never ends \n", reasoning: "never ends \n", noText: true},
	{mode: provider.ThinkStart, in: "<think>cut </thin", reasoning: "cut </thin", noText: true},
	{mode: provider.ThinkStart, in: "<think>\n\n</think>\n\nx", text: "x", noThought: true},
	{mode: provider.ThinkStart, in: "<think></think>", noThought: true},
	{mode: provider.ThinkStart, in: "<think>a</think>\n", reasoning: "a", noText: true},
	{mode: provider.ThinkStart, in: "plain <think>a</think>", text: "plain <think>a</think>", noThought: true},
	{mode: provider.ThinkStart, in: " <thin", text: " <thin", noThought: true},
	{mode: provider.ThinkStart, in: "a</think>b", text: "a</think>b", noThought: true},
	{mode: provider.ThinkStart, in: "", noThought: true},
	{mode: provider.ThinkOpened, in: "\nWhy?\n</think>\n\nBecause.", reasoning: "Why?", text: "Because."},
	{mode: provider.ThinkOpened, in: "<think>Why?</think>Because.", reasoning: "Why?", text: "Because."},
	{mode: provider.ThinkOpened, in: "<thin air</think>x", reasoning: "<thin air", text: "x"},
	{mode: provider.ThinkOpened, in: "no end", reasoning: "no end", noText: true},
}

// TestThinkTags cuts the text of a stream at every two places. Every cut gives the
// same blocks as the whole response.
func TestThinkTags(t *testing.T) {
	for _, c := range thinkingCases {
		for _, call := range []bool{false, true} {
			var want []llm.Block
			if !c.noThought {
				want = append(want, &llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: c.reasoning}}})
			}
			if !c.noText && (c.text != "" || !call) {
				want = append(want, &llm.Text{Text: c.text})
			}
			blocks := []llm.Block{&llm.Text{Text: c.in}}
			if call {
				tool := &llm.ToolCall{CallID: "1", Name: "f", Kind: llm.FunctionTool, Args: "{}"}
				want, blocks = append(want, tool), append(blocks, tool)
			}
			whole, err := splitThinking(c.mode, &llm.Response{Choices: []llm.Choice{{Blocks: blocks, Stop: llm.Stop{Kind: llm.EndTurn}}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := encoded(t, whole.Choices[0].Blocks); got != encoded(t, want) {
				t.Fatalf("%q: %s, want %s", c.in, got, encoded(t, want))
			}
			for i := range len(c.in) + 1 {
				for j := i; j <= len(c.in); j++ {
					pieces := []string{c.in[:i], c.in[i:j], c.in[j:]}
					if got := encoded(t, stream(t, c.mode, pieces, call)); got != encoded(t, want) {
						t.Fatalf("%q: %s, want %s", pieces, got, encoded(t, want))
					}
				}
			}
			if got := encoded(t, stream(t, c.mode, strings.Split(c.in, ""), call)); got != encoded(t, want) {
				t.Fatalf("%q by characters: %s, want %s", c.in, got, encoded(t, want))
			}
		}
	}
}

// stream returns the blocks of a streaming response whose text comes in pieces.
func stream(t *testing.T, mode provider.ThinkTags, pieces []string, call bool) []llm.Block {
	t.Helper()
	events := []llm.Event{llm.Start{ID: "1"}, llm.BlockStart{Block: &llm.Text{}}}
	for _, p := range pieces {
		if p != "" {
			events = append(events, llm.Delta{Text: p})
		}
	}
	if call { // the text ends after the call, as in chat completions
		events = append(events, llm.BlockStart{Index: 1, Block: &llm.ToolCall{CallID: "1", Name: "f", Kind: llm.FunctionTool}}, llm.Delta{Index: 1, Text: "{}"}, llm.BlockEnd{Index: 1})
	}
	events = append(events, llm.BlockEnd{}, llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{})
	s := newThinkSplitter(mode)
	var out []llm.Event
	for _, e := range events {
		out = append(out, s.event(e, nil)...)
	}
	if err := protocoltest.ValidateEvents(out); err != nil {
		t.Fatalf("%q: %v", pieces, err)
	}
	resp, err := protocoltest.Collect(out)
	if err != nil {
		t.Fatalf("%q: %v", pieces, err)
	}
	return resp.Choices[0].Blocks
}

func encoded(t *testing.T, blocks []llm.Block) string {
	t.Helper()
	text, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestThinkTagsInOtherBlocks checks that reasoning that the engine has separated, and a
// response without text, stay as they are, and that a failed stream loses no text.
func TestThinkTagsInOtherBlocks(t *testing.T) {
	blocks := []llm.Block{&llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "a"}}}, &llm.Text{Text: "<think>b</think>c"}}
	resp, err := splitThinking(provider.ThinkStart, &llm.Response{Choices: []llm.Choice{{Blocks: blocks, Stop: llm.Stop{Kind: llm.EndTurn}}}})
	if err != nil || encoded(t, resp.Choices[0].Blocks) != encoded(t, blocks) {
		t.Error(err, encoded(t, resp.Choices[0].Blocks))
	}
	s := newThinkSplitter(provider.ThinkStart)
	var text strings.Builder
	for _, e := range s.events([]llm.Event{llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "<think>a </th"}, llm.Failure{Err: &llm.Error{}}}, nil) {
		if d, ok := e.(llm.Delta); ok {
			text.WriteString(d.Text)
		}
	}
	if text.String() != "a </th" {
		t.Errorf("%q", text.String())
	}
}

// TestThinkTagsReadEachByteOnce splits texts with 1 MiB of white space, in small pieces, at each place where it is
// not decided yet what it belongs to.
func TestThinkTagsReadEachByteOnce(t *testing.T) {
	for name, c := range map[string]struct {
		mode          provider.ThinkTags
		before, piece string
	}{
		"before the start":            {provider.ThinkStart, "", " "},
		"before the text":             {provider.ThinkOpened, "", "\n"},
		"in the reasoning":            {provider.ThinkStart, "<think>a", " "},
		"in the reasoning, with tags": {provider.ThinkStart, "<think>a", " </think "},
		"behind the end":              {provider.ThinkStart, "<think>a</think>", "\n"},
		"in the text":                 {provider.ThinkStart, "a", " "},
	} {
		t.Run(name, func(t *testing.T) {
			growth.Linear(t, func(n int) {
				s := newThinkSplitter(c.mode)
				to := s.events([]llm.Event{llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: c.before}}, nil)
				for range n {
					to = s.event(llm.Delta{Text: strings.Repeat(c.piece, growth.PieceSize)}, to[:0])
				}
			})
		})
	}
}

// TestThinkTagsBoundWhiteSpace checks that not more white space is held than the limit, and that none is lost.
func TestThinkTagsBoundWhiteSpace(t *testing.T) {
	blank := strings.Repeat(" ", 3*maxHeld)
	for _, before := range []string{"", "<think>a"} {
		s := newThinkSplitter(provider.ThinkStart)
		to := s.events([]llm.Event{llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: before}}, nil)
		sent := 0
		for i := 0; i < len(blank); i += 1 << 10 {
			to = s.event(llm.Delta{Text: blank[i : i+1<<10]}, to)
			if c := s.choices[0]; len(c.blank)+len(c.held) > maxHeld+1<<10 {
				t.Fatalf("%d bytes are held", len(c.blank))
			}
		}
		for _, e := range s.events([]llm.Event{llm.BlockEnd{}}, to) {
			if d, ok := e.(llm.Delta); ok {
				sent += strings.Count(d.Text, " ")
			}
		}
		if sent != len(blank) {
			t.Errorf("%q: %d of %d bytes were sent", before, sent, len(blank))
		}
	}
}

// TestTextBehindACall checks that text of the first block that comes after another block has begun is not searched for tags.
func TestTextBehindACall(t *testing.T) {
	var text strings.Builder
	for _, e := range newThinkSplitter(provider.ThinkStart).events([]llm.Event{
		llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "<"},
		llm.BlockStart{Index: 1, Block: &llm.ToolCall{CallID: "1", Name: "f", Kind: llm.FunctionTool}},
		llm.Delta{Text: "<think>a</think>b"}, llm.BlockEnd{}, llm.BlockEnd{Index: 1},
	}, nil) {
		if d, ok := e.(llm.Delta); ok {
			text.WriteString(d.Text)
		}
	}
	if text.String() != "<<think>a</think>b" {
		t.Errorf("%q", text.String())
	}
}

// TestThinkTagsLogprobs checks that log probabilities go to the text, streaming or not.
func TestThinkTagsLogprobs(t *testing.T) {
	s := newThinkSplitter(provider.ThinkStart)
	var all llm.Collector
	for _, e := range s.events([]llm.Event{llm.Start{ID: "1"}, llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "<think>a"}, llm.Logprobs{Raw: "1"}, llm.Delta{Text: "</think>b"}, llm.Logprobs{Raw: "2"},
		llm.BlockEnd{}, llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{}}, nil) {
		if err := all.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := all.Response()
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Choices[0].Blocks[1].(*llm.Text).Logprobs; got != "[1,2]" {
		t.Error(got)
	}
}
