package llm

// Event is a step of a streamed answer: one of the types in this file. Blocks are
// numbered per choice in the order in which they begin, and several may be open at
// once.
type Event interface{ event() }

// Start comes first, once.
type Start struct {
	ID      string
	Model   string
	Created int64
	Usage   *Usage // what is known at the start
	Tier    string
	Ext     Ext // of the answer
}

// BlockStart opens a block. Block holds what is known from the beginning: its
// kind, ids and names; its text comes in deltas.
type BlockStart struct {
	Choice, Index int
	Block         Block
}

// Delta appends to the text of an open block: what is said, refused or thought, a
// function's arguments, a custom tool's text.
type Delta struct {
	Choice, Index int
	Text          string
	Part          int    // of a Thought
	Form          string // of a Thought's part
}

// SealDelta gives an open block a seal. A later one of the same form replaces it.
type SealDelta struct {
	Choice, Index int
	Seal          Seal
}

// Cite gives an open text block a citation.
type Cite struct {
	Choice, Index int
	Citation      Citation
}

// Logprobs gives an open block the log probabilities of what was just said, as
// the elements of a JSON list.
type Logprobs struct {
	Choice, Index int
	Raw           Raw
}

// BlockEnd closes a block.
type BlockEnd struct {
	Choice, Index int
}

// UsageUpdate replaces what was known of the token counts.
type UsageUpdate struct{ Usage Usage }

// ChoiceEnd says why a choice ended. Nothing of that choice follows.
type ChoiceEnd struct {
	Choice int
	Stop   Stop
	Ext    Ext // of the choice
}

// End comes last, once, where the answer came to its end.
type End struct{}

// Failure comes last, once, where it did not.
type Failure struct{ Err *Error }

// Ping says that the upstream is still there.
type Ping struct{}

func (Start) event()       {}
func (BlockStart) event()  {}
func (Delta) event()       {}
func (SealDelta) event()   {}
func (Cite) event()        {}
func (Logprobs) event()    {}
func (BlockEnd) event()    {}
func (UsageUpdate) event() {}
func (ChoiceEnd) event()   {}
func (End) event()         {}
func (Failure) event()     {}
func (Ping) event()        {}
