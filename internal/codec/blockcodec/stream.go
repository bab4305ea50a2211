package blockcodec

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// PartBreak separates the parts of a thought, because the protocols have no boundaries for them.
const PartBreak = "\n\n"

// Part is the kind of text that a delta has.
type Part int

// The parts.
const (
	TextPart Part = iota
	ThinkingPart
	InputPart
	SignaturePart
	RedactedPart
)

// OutBlock is a block that is being sent to the client.
type OutBlock struct {
	Block  llm.Block
	Seals  []llm.Seal
	Sealed int // number of seals that the start event held
	Signed bool
	Index  int // on the wire
	Begun  bool

	ended   bool
	waiting []llm.Event
	part    int // of a thought: the last part that was written
	args    arguments
}

// Piece returns what is sent now of a delta, which may be nothing.
func (b *OutBlock) Piece(e llm.Delta) (Part, string) {
	if e.Text == "" {
		return TextPart, ""
	}
	switch block := b.Block.(type) {
	case *llm.Text, *llm.Refusal:
		return TextPart, e.Text
	case *llm.Thought:
		text := e.Text
		if e.Part > b.part {
			text = strings.Repeat(PartBreak, e.Part-b.part) + text
			b.part = e.Part
		}
		return ThinkingPart, text
	case *llm.ToolCall:
		return InputPart, b.args.add(block, e.Text)
	}
	return TextPart, ""
}

// RestOfInput returns the arguments of a call as an object, unless Piece has returned them.
func (b *OutBlock) RestOfInput(call *llm.ToolCall) (wire.Raw, bool) { return b.args.rest(call) }

// StreamWriter writes events of a protocol.
type StreamWriter interface {
	// Start writes the beginning of the response.
	Start(to []byte, e llm.Start) []byte
	// Write writes an event of the block that is active.
	Write(to []byte, b *OutBlock, e llm.Event) []byte
	// Finish writes the end of the response.
	Finish(to []byte) []byte
}

// Stream writes the blocks of a response one after the other. Events of a later block wait while another block is open.
type Stream struct {
	Started bool
	Over    bool
	Called  bool // a call was written
	Usage   *llm.Usage
	End     llm.ChoiceEnd

	blocks []*OutBlock // of the first choice; finished ones are nil
	active int         // the block that is being written
	next   int         // index of the next block on the wire
}

// Encode appends an event. It ignores those that have no part in the order of the blocks.
func (s *Stream) Encode(w StreamWriter, event llm.Event, to []byte) []byte {
	switch e := event.(type) {
	case llm.Delta:
		return s.route(w, to, e.Choice, e.Index, event)
	case llm.Start:
		return s.start(w, to, e)
	case llm.BlockStart:
		if e.Choice != 0 {
			return to // the protocols have one choice
		}
		s.blocks = append(s.blocks, &OutBlock{Block: e.Block, Seals: slices.Clone(e.Block.Common().Seals)})
		return s.start(w, to, llm.Start{})
	case llm.SealDelta:
		return s.route(w, to, e.Choice, e.Index, event)
	case llm.Cite:
		return s.route(w, to, e.Choice, e.Index, event)
	case llm.BlockEnd:
		return s.route(w, to, e.Choice, e.Index, event)
	case llm.UsageUpdate:
		s.Usage = &e.Usage
	case llm.ChoiceEnd:
		if e.Choice == 0 {
			s.End = e
		}
	case llm.End:
		to = s.start(w, to, llm.Start{})
		for i, b := range s.blocks { // the source did not end a block
			if b != nil && !b.ended {
				to = s.route(w, to, 0, i, llm.BlockEnd{Index: i})
			}
		}
		s.Over = true
		return w.Finish(to)
	}
	return to
}

func (s *Stream) start(w StreamWriter, to []byte, e llm.Start) []byte {
	if s.Started {
		return to
	}
	s.Started, s.Usage = true, e.Usage
	return w.Start(to, e)
}

// Begin gives a block its index.
func (s *Stream) Begin(b *OutBlock) {
	b.Begun, b.Index = true, s.next
	s.next++
}

// route passes an event to its block, or keeps it until the block is active.
func (s *Stream) route(w StreamWriter, to []byte, choice, index int, e llm.Event) []byte {
	if choice != 0 || index < 0 || index >= len(s.blocks) || s.blocks[index] == nil || s.blocks[index].ended {
		return to
	}
	b := s.blocks[index]
	if _, last := e.(llm.BlockEnd); last {
		b.ended = true
	}
	if index != s.active {
		b.waiting = append(b.waiting, e)
		return to
	}
	to = w.Write(to, b, e)
	for b.ended { // activate the next block and write its waiting events
		s.blocks[s.active] = nil
		if s.active++; s.active >= len(s.blocks) {
			break
		}
		b = s.blocks[s.active]
		for _, e := range b.waiting {
			to = w.Write(to, b, e)
		}
		b.waiting = nil
	}
	return to
}
