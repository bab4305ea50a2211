package pair

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// MaxLosses limits the losses that are reported for one stream.
const MaxLosses = 32

// maxOutline limits the size of an outline.
const maxOutline = 64 << 10

// maxDetails limits the citations and log probabilities of an outline. Later ones lose what the first ones lose.
const maxDetails = 8

// Outline is a response without its text. It has what a client's dialect may lose, so that
// a stream reports the same losses as a non-streaming response.
type Outline struct {
	client   protocol.Name
	response llm.Collector
	last     block          // of the last delta
	texts    map[block]bool // the blocks that have text
	details  int            // citations and log probabilities so far
	full     bool           // it is too large, and reports nothing
	counted  bool           // it has token counts
	suspect  bool           // it has something that not every dialect can carry
}

// block is the place of a block in a response.
type block struct{ choice, index int }

// NewOutline returns the outline of a response for a client. A text completion can carry
// little, so that its responses are always looked at.
func NewOutline(client protocol.Name, completion bool) Outline {
	return Outline{client: client, response: llm.Collector{Limit: maxOutline}, last: block{index: -1}, suspect: completion}
}

// Add adds an event. Of the deltas of a block it needs the first.
func (o *Outline) Add(e llm.Event) {
	switch d := e.(type) {
	case llm.Delta:
		b := block{d.Choice, d.Index}
		if b == o.last || d.Text == "" || o.full {
			return
		}
		if o.last = b; o.texts[b] {
			return
		}
		if o.texts == nil {
			o.texts = map[block]bool{}
		}
		o.texts[b] = true
		d.Text = "{}" // also valid arguments
		e = d
	case llm.Cite, llm.Logprobs:
		if o.details++; o.details > maxDetails {
			return
		}
	case llm.BlockStart:
		switch d.Block.(type) {
		case *llm.Text, *llm.Refusal, *llm.Thought, *llm.ToolCall:
		default: // BlockLosses has them
			d.Block = &llm.Text{}
			e = d
		}
	case llm.SealDelta, llm.Ping:
		return
	}
	o.suspect = o.suspect || o.mayLose(e)
	if !o.full && o.response.Add(e) != nil {
		o.full, o.response = true, llm.Collector{}
	}
}

// mayLose reports whether an event has something that not every dialect can carry.
func (o *Outline) mayLose(e llm.Event) bool {
	switch e := e.(type) {
	case llm.Start:
		o.counted = e.Usage != nil
		return e.Tier != "" || o.drops(e.Ext)
	case llm.BlockStart:
		if e.Choice > 0 || o.drops(e.Block.Common().Ext) {
			return true
		}
		switch b := e.Block.(type) {
		case *llm.Text:
			return b.Phase != ""
		case *llm.ToolCall:
			return b.Kind != llm.FunctionTool
		}
		_, thought := e.Block.(*llm.Thought)
		return !thought
	case llm.Delta:
		return e.Form == llm.SummaryReasoning
	case llm.Cite, llm.Logprobs:
		return true
	case llm.Members:
		return o.drops(e.Ext)
	case llm.UsageUpdate:
		o.counted = true
		return e.Usage.CacheWrite > 0
	case llm.ChoiceEnd:
		return !slices.Contains([]llm.StopKind{llm.EndTurn, llm.MaxTokens, llm.ToolUse}, e.Stop.Kind) || e.Stop.Category+e.Stop.Explanation != "" || o.drops(e.Ext)
	}
	return false
}

// drops reports whether the client's dialect drops some of the members.
func (o *Outline) drops(e llm.Ext) bool { return len(codec.Lost(e, o.client)) > 0 }

// Losses returns what the client's codec loses of a response, other than the blocks of
// [BlockLosses].
func (o *Outline) Losses(client protocol.Translator) []llm.Loss {
	if o.full || !o.suspect && o.counted {
		return nil
	}
	resp, err := o.response.Response()
	if err != nil {
		return nil
	}
	var report llm.Report
	client.EncodeResponse(resp, &llm.Request{}, &report)
	return report.Losses[:min(len(report.Losses), MaxLosses)]
}

// BlockLosses returns the losses of a block that is neither text nor reasoning nor a tool
// call. Such blocks are rare, and only the codec knows its losses, so BlockLosses encodes
// the block as a response.
func BlockLosses(client protocol.Translator, b llm.Block) []llm.Loss {
	switch b.(type) {
	case *llm.Media, *llm.ToolResult, *llm.ServerCall, *llm.Opaque:
	default:
		return nil
	}
	var report llm.Report
	client.EncodeResponse(&llm.Response{Usage: &llm.Usage{}, Choices: []llm.Choice{{Blocks: []llm.Block{llm.CopyBlock(b)}, Stop: llm.Stop{Kind: llm.EndTurn}}}}, &llm.Request{}, &report)
	return report.Losses
}
