package llm

// Event is one step of a streaming response. Its type is one of those in this file.
// The blocks of a choice are numbered in the order in which they start. Several
// blocks may be open at once.
type Event interface{ event() }

// Start is the first event of a stream.
type Start struct {
	ID      string
	Model   string
	Created int64
	Usage   *Usage // the token counts known so far
	Tier    string
	Ext     Ext // of the response
}

// BlockStart opens a block. Block holds the type, ids and names; the text follows in
// deltas.
type BlockStart struct {
	Choice, Index int
	Block         Block
}

// Delta appends to an open block: to its text, to a function's arguments or to a
// custom tool's input.
type Delta struct {
	Choice, Index int
	Text          string
	Part          int    // of a Thought
	Form          string // of a Thought's part
}

// SealDelta adds a seal to an open block. It replaces an earlier seal of the same
// form and origin.
type SealDelta struct {
	Choice, Index int
	Seal          Seal
}

// Cite adds a citation to an open text block.
type Cite struct {
	Choice, Index int
	Citation      Citation
}

// Logprobs adds the log probabilities of the latest text to an open block. Raw holds
// the items of a JSON array without its brackets.
type Logprobs struct {
	Choice, Index int
	Raw           Raw
}

// Members adds members that exist only in their own protocol: to the response if
// Choice is Whole, to a choice if Index is Whole, otherwise to an open block. A value
// other than null replaces an earlier value of the same name. With Append, the values
// are JSON arrays whose items are appended to the earlier ones.
type Members struct {
	Choice, Index int
	Ext           Ext
	Append        bool
}

// Whole is the Choice of Members that belong to the response, and the Index of
// Members that belong to a choice.
const Whole = -1

// BlockEnd closes a block.
type BlockEnd struct {
	Choice, Index int
}

// UsageUpdate replaces the earlier token counts.
type UsageUpdate struct {
	Usage Usage
	// Tier is the service tier of the usage, where the source names it only with the counts. Encoders
	// do not write it.
	Tier string
}

// ChoiceEnd ends a choice and gives the reason. No event of that choice follows.
type ChoiceEnd struct {
	Choice int
	Stop   Stop
	Ext    Ext // of the choice
}

// End is the last event of a complete response.
type End struct{}

// Failure is the last event of a response that failed or was cut off.
type Failure struct{ Err *Error }

// Ping is a keep-alive from the upstream.
type Ping struct{}

func (Start) event()       {}
func (BlockStart) event()  {}
func (Delta) event()       {}
func (SealDelta) event()   {}
func (Cite) event()        {}
func (Logprobs) event()    {}
func (Members) event()     {}
func (BlockEnd) event()    {}
func (UsageUpdate) event() {}
func (ChoiceEnd) event()   {}
func (End) event()         {}
func (Failure) event()     {}
func (Ping) event()        {}
