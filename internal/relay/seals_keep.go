package relay

import (
	"crypto/sha256"
	"slices"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// keeper gathers what of an answer is worth keeping while it passes.
type keeper struct {
	caller   string
	nameless bool // the client's dialect can do without ids

	turn  keptTurn
	first *llm.ToolCall
	open  map[int]*keptBlock
	size  int
}

// keptBlock is a block in the making. Its text grows in bytes: a string would be
// copied with every delta.
type keptBlock struct {
	thought *llm.Thought // nil for a call
	call    *llm.ToolCall
	texts   [][]byte // of the thought's parts, or of the call's arguments
	seals   []llm.Seal
}

func (x *exchange) keeper() keeper {
	return keeper{caller: x.caller.ID, nameless: x.dialect.Name() == protocol.Gemini}
}

// event looks at one event of the first choice.
func (k *keeper) event(e llm.Event) {
	if k.size > maxSealSize {
		return // too much to keep; the client may still send it back
	}
	switch e := e.(type) {
	case llm.BlockStart:
		k.begin(e)
	case llm.Delta:
		b := k.open[e.Index]
		if e.Choice != 0 || b == nil {
			return
		}
		k.size += len(e.Text)
		b.add(e)
	case llm.SealDelta:
		if b := k.open[e.Index]; e.Choice == 0 && b != nil {
			k.size += len(e.Seal.Data)
			b.seals = append(b.seals, e.Seal)
		}
	case llm.BlockEnd:
		if e.Choice == 0 {
			k.end(e.Index)
		}
	}
}

// add appends a delta's text to its part.
func (b *keptBlock) add(e llm.Delta) {
	for len(b.texts) <= e.Part && e.Part < 64 {
		b.texts = append(b.texts, nil)
		if b.thought != nil && len(b.thought.Parts) < len(b.texts) {
			b.thought.Parts = append(b.thought.Parts, llm.ThoughtPart{Form: e.Form})
		}
	}
	if e.Part < len(b.texts) {
		b.texts[e.Part] = append(b.texts[e.Part], e.Text...)
	}
}

// fill puts the text where it belongs.
func (b *keptBlock) fill() {
	for i, text := range b.texts {
		if b.thought == nil {
			b.call.Args += string(text)
			continue
		}
		b.thought.Parts[i].Text += string(text)
	}
}

func (k *keeper) begin(e llm.BlockStart) {
	if e.Choice != 0 {
		return
	}
	if k.open == nil {
		k.open = map[int]*keptBlock{}
	}
	b := &keptBlock{seals: slices.Clone(e.Block.Common().Seals)}
	switch block := e.Block.(type) {
	case *llm.Thought:
		b.thought = &llm.Thought{Parts: slices.Clone(block.Parts)}
	case *llm.ToolCall:
		call := *block
		b.call = &call
		if k.first == nil {
			k.first = b.call
		}
	default:
		return
	}
	k.open[e.Index] = b
}

func (k *keeper) end(index int) {
	b := k.open[index]
	if b == nil {
		return
	}
	delete(k.open, index)
	b.fill()
	switch {
	case b.thought != nil:
		b.thought.Seals = b.seals
		k.turn.Thoughts = append(k.turn.Thoughts, *b.thought)
	case len(b.seals) > 0:
		if k.turn.Calls == nil {
			k.turn.Calls = map[string][]llm.Seal{}
		}
		k.turn.Calls[b.call.CallID] = b.seals
	}
}

// keep puts what was gathered into the store, if it is worth it. before is the
// digest of the conversation that was answered.
func (k *keeper) keep(s *sealStore, before func() [sha256.Size]byte) {
	origins := k.turn.origins()
	if k.first == nil || k.size > maxSealSize || len(origins) == 0 {
		return
	}
	at := before()
	for _, o := range origins {
		s.put(keyOf(k.caller, o, at, k.first), &k.turn)
		if k.nameless {
			s.put(keyOf(k.caller, o, at, nameless(k.first)), &k.turn)
		}
	}
}

// keepAnswer keeps what is worth it of an answer that came whole.
func (s *sealStore) keepAnswer(k keeper, ask []llm.Turn, resp *llm.Response) {
	for _, e := range llm.Explode(resp) {
		k.event(e)
	}
	k.keep(s, func() [sha256.Size]byte { return digestOf(ask) })
}
