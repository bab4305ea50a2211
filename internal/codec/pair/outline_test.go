package pair

import (
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// TestOutline compares the losses of an outline with those of the whole response, for
// every client dialect.
func TestOutline(t *testing.T) {
	foreign := llm.Ext{Protocol: "x", Members: []llm.Member{{Name: "odd", Value: "1"}}}
	text := &llm.Text{Text: "long text", Phase: "commentary", Logprobs: `[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}]`, Citations: []llm.Citation{{}}}
	reported := 0
	for _, c := range []llm.Choice{
		{Blocks: []llm.Block{&llm.Text{Text: "plain"}}, Stop: llm.Stop{Kind: llm.EndTurn}},
		{Blocks: []llm.Block{&llm.Text{Text: "plain"}}, Stop: llm.Stop{Kind: llm.MaxTokens}},
		{Blocks: []llm.Block{&llm.Text{Text: "plain"}}, Stop: llm.Stop{Kind: llm.StopSequence, Matched: "x"}},
		{Blocks: []llm.Block{&llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "long"}}}, &llm.Text{Text: "plain", Meta: llm.Meta{Ext: foreign}}}, Stop: llm.Stop{Kind: llm.EndTurn}},
		{Blocks: []llm.Block{&llm.Text{Text: "plain", Phase: "commentary"}}, Stop: llm.Stop{Kind: llm.EndTurn}},
		{Blocks: []llm.Block{&llm.Text{Text: "plain", Citations: []llm.Citation{{}}}}, Stop: llm.Stop{Kind: llm.EndTurn}},
		{Blocks: []llm.Block{&llm.Text{Text: "plain", Logprobs: text.Logprobs}}, Stop: llm.Stop{Kind: llm.EndTurn}},
		{Blocks: []llm.Block{&llm.Refusal{Text: "no"}}, Stop: llm.Stop{Kind: llm.EndTurn}},
		{Blocks: []llm.Block{text, text}, Stop: llm.Stop{Kind: llm.EndTurn}},
		{Blocks: []llm.Block{&llm.Refusal{Text: "no, never"}}, Stop: llm.Stop{Kind: llm.ContentFilter, Category: "c", Explanation: "e"}},
		{Blocks: []llm.Block{&llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: "in short"}}}, &llm.Text{Text: "b"}}, Stop: llm.Stop{Kind: llm.Other}},
		{Blocks: []llm.Block{&llm.ToolCall{CallID: "1", Name: "f", Kind: llm.FunctionTool, Args: `{"a":1}`}, &llm.ToolCall{CallID: "2", Name: "f", Kind: llm.FunctionTool, Args: `{"a":1}`}}, Stop: llm.Stop{Kind: llm.ToolUse}, Ext: foreign},
	} {
		for _, resp := range []*llm.Response{
			{ID: "1", Model: "m", Choices: []llm.Choice{c}},
			{ID: "1", Model: "m", Choices: []llm.Choice{c}, Usage: &llm.Usage{Input: 5}},
			{ID: "1", Model: "m", Choices: []llm.Choice{c}, Usage: &llm.Usage{Input: 5}, Tier: "flex"},
			{ID: "1", Model: "m", Choices: []llm.Choice{c}, Usage: &llm.Usage{Input: 5, CacheWrite: 3}},
			{ID: "1", Model: "m", Choices: []llm.Choice{c}, Usage: &llm.Usage{Input: 5}, Ext: foreign},
		} {
			for _, codec := range all.Codecs() {
				var want llm.Report
				codec.EncodeResponse(resp, &llm.Request{}, &want)
				o := NewOutline(codec.Name(), false)
				for _, e := range llm.Explode(resp) {
					o.Add(e)
				}
				losses := o.Losses(codec)
				if got := codes(losses); got != codes(want.Losses) {
					t.Errorf("%s: %s, want %s", codec.Name(), got, codes(want.Losses))
				}
				reported += len(losses)
			}
		}
	}
	if reported < 40 {
		t.Errorf("only %d losses", reported)
	}
}

func codes(losses []llm.Loss) string {
	var list []string
	for _, l := range losses {
		list = append(list, l.Path+" "+l.Code)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// TestOutlineOfInterleavedBlocks checks that each block gets text once.
func TestOutlineOfInterleavedBlocks(t *testing.T) {
	o := NewOutline("openai-chat", false)
	o.Add(llm.Start{})
	for i := range 2 {
		o.Add(llm.BlockStart{Index: i, Block: &llm.ToolCall{CallID: "1", Name: "f", Kind: llm.FunctionTool}})
	}
	for i := range 9 {
		o.Add(llm.Delta{Index: i % 2, Text: "{"})
	}
	o.Add(llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.ToolUse}})
	o.Add(llm.UsageUpdate{})
	o.Add(llm.End{})
	for _, codec := range all.Codecs() {
		if losses := o.Losses(codec); len(losses) > 0 {
			t.Errorf("%s: %v", codec.Name(), losses)
		}
	}
}

// TestOutlineIsBounded checks that an outline holds neither the text nor any number of
// blocks.
func TestOutlineIsBounded(t *testing.T) {
	o := NewOutline("openai-chat", false)
	o.Add(llm.Start{})
	o.Add(llm.BlockStart{Block: &llm.Text{}})
	for range 1000 {
		o.Add(llm.Delta{Text: strings.Repeat("x", 1000)})
	}
	for range 1000 {
		o.Add(llm.Cite{Citation: llm.Citation{Quote: strings.Repeat("x", 1000)}})
		o.Add(llm.Logprobs{Raw: llm.Raw(`{"token":"` + strings.Repeat("x", 1000) + `","logprob":0}`)})
	}
	if o.full {
		t.Error("text, citations or log probabilities count")
	}
	for i := range 1000 {
		o.Add(llm.BlockStart{Index: i + 1, Block: &llm.Text{}})
	}
	if !o.full {
		t.Error("blocks do not count")
	}
}
