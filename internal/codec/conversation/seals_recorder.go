package conversation

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/llm"
)

// SealRecorder collects the sealed reasoning of one response while its events pass.
type SealRecorder struct {
	seals       *Seals
	caller      Caller
	optionalIDs bool

	found reasoning
	first *llm.ToolCall
	open  map[int]*openBlock
	size  int // approximate bytes so far
}

// openBlock is a block that has not ended. Its text grows in byte slices: a string
// would be copied with every delta.
type openBlock struct {
	thought *llm.Thought // nil for a call
	call    *llm.ToolCall
	texts   [][]byte // of the thought's parts, or of the call's arguments
	seals   []llm.Seal
}

// NewRecorder returns a recorder for one response to a caller. optionalIDs is for
// client dialects in which tool calls need no ids: the reasoning is then also found if
// the client sends the call back without its id.
func (s *Seals) NewRecorder(caller Caller, optionalIDs bool) SealRecorder {
	return SealRecorder{seals: s, caller: caller, optionalIDs: optionalIDs}
}

// Event reads one event as the client receives it. Only the first choice counts.
func (r *SealRecorder) Event(e llm.Event) {
	if r.size > sealsMaxValue {
		return
	}
	switch e := e.(type) {
	case llm.BlockStart:
		if e.Choice == 0 {
			r.startBlock(e)
		}
	case llm.Delta:
		b := r.open[e.Index]
		if e.Choice != 0 || b == nil {
			return
		}
		r.size += len(e.Text)
		b.add(e)
	case llm.SealDelta:
		if b := r.open[e.Index]; e.Choice == 0 && b != nil {
			r.size += len(e.Seal.Data)
			b.seals = append(b.seals, e.Seal)
		}
	case llm.BlockEnd:
		if e.Choice == 0 {
			r.endBlock(e.Index)
		}
	}
}

// Response reads a non-streaming response.
func (r *SealRecorder) Response(resp *llm.Response) {
	for _, e := range llm.Explode(resp) {
		r.Event(e)
	}
}

// Save stores the reasoning of a response that calls a tool and has seals. before
// returns the digest of the conversation that the response continues; it is called
// only if it is needed.
func (r *SealRecorder) Save(before func() Digest) {
	protocols := r.found.protocols()
	if r.first == nil || r.size > sealsMaxValue || len(protocols) == 0 {
		return
	}
	digest := before()
	for _, p := range protocols {
		r.seals.put(r.caller.Tenant, sealKey(r.caller.ID, p, digest, r.first.CallID, r.first), &r.found)
		if r.optionalIDs {
			r.seals.put(r.caller.Tenant, sealKey(r.caller.ID, p, digest, "", r.first), &r.found)
		}
	}
}

// blockSize is the approximate size of a block without text.
const blockSize = 128

func (r *SealRecorder) startBlock(e llm.BlockStart) {
	r.size += blockSize
	b := &openBlock{seals: slices.Clone(e.Block.Common().Seals)}
	switch block := e.Block.(type) {
	case *llm.Thought:
		b.thought = &llm.Thought{Parts: slices.Clone(block.Parts)}
	case *llm.ToolCall:
		call := *block
		b.call = &call
		if r.first == nil {
			r.first = b.call
		}
	default:
		return
	}
	if r.open == nil {
		r.open = map[int]*openBlock{}
	}
	r.open[e.Index] = b
}

func (r *SealRecorder) endBlock(index int) {
	b := r.open[index]
	if b == nil {
		return
	}
	delete(r.open, index)
	b.joinTexts()
	switch {
	case b.thought != nil:
		b.thought.Seals = b.seals
		r.found.Thoughts = append(r.found.Thoughts, *b.thought)
	case len(b.seals) > 0:
		if r.found.Calls == nil {
			r.found.Calls = map[string][]llm.Seal{}
		}
		r.found.Calls[b.call.CallID] = b.seals
	}
}

// maxParts bounds the parts of one thought.
const maxParts = 64

// add appends a delta's text to its part.
func (b *openBlock) add(e llm.Delta) {
	for len(b.texts) <= e.Part && e.Part < maxParts {
		b.texts = append(b.texts, nil)
		if b.thought != nil && len(b.thought.Parts) < len(b.texts) {
			b.thought.Parts = append(b.thought.Parts, llm.ThoughtPart{Form: e.Form})
		}
	}
	if e.Part < len(b.texts) {
		b.texts[e.Part] = append(b.texts[e.Part], e.Text...)
	}
}

// joinTexts moves the collected text into the block.
func (b *openBlock) joinTexts() {
	for i, text := range b.texts {
		if b.thought == nil {
			b.call.Args += string(text)
			continue
		}
		b.thought.Parts[i].Text += string(text)
	}
}
