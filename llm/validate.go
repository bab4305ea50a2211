package llm

import "fmt"

// Validator checks that a stream of events follows the rules that encoders rely on:
//
//   - Start is the first event, except for pings and a failure; End or Failure is the
//     last;
//   - the blocks of a choice start in the order of their indexes, end once, and get
//     deltas only while they are open;
//   - a choice ends once, after its blocks; End comes after all choices have ended;
//   - the start of a tool call has the call's id and name;
//   - token counts do not decrease.
type Validator struct {
	started, over bool
	choices       map[int]*validated
	usage         Usage
}

type validated struct {
	open  []bool // by block index
	ended bool
}

// Add checks the next event.
func (v *Validator) Add(e Event) error {
	if v.over {
		return fmt.Errorf("%T after End or Failure", e)
	}
	if _, first := e.(Start); !v.started && !first {
		switch e.(type) {
		case Ping, Failure:
		default:
			return fmt.Errorf("%T before Start", e)
		}
	}
	switch e := e.(type) {
	case Start:
		if v.started {
			return fmt.Errorf("a second Start")
		}
		v.started = true
	case BlockStart:
		return v.begin(e)
	case Delta:
		return v.inside(e, e.Choice, e.Index)
	case SealDelta:
		return v.inside(e, e.Choice, e.Index)
	case Cite:
		return v.inside(e, e.Choice, e.Index)
	case Logprobs:
		return v.inside(e, e.Choice, e.Index)
	case Members:
		return v.members(e)
	case BlockEnd:
		if err := v.inside(e, e.Choice, e.Index); err != nil {
			return err
		}
		v.choices[e.Choice].open[e.Index] = false
	case ChoiceEnd:
		return v.endChoice(e)
	case UsageUpdate:
		return v.count(e.Usage)
	case End:
		v.over = true
		for i, c := range v.choices {
			if !c.ended {
				return fmt.Errorf("End before the end of choice %d", i)
			}
		}
	case Failure:
		v.over = true
		if e.Err == nil {
			return fmt.Errorf("a Failure without an error")
		}
	case Ping:
	}
	return nil
}

// Finish returns an error if the stream has neither End nor Failure.
func (v *Validator) Finish() error {
	if !v.over {
		return fmt.Errorf("the stream has neither End nor Failure")
	}
	return nil
}

func (v *Validator) choice(i int) *validated {
	if v.choices == nil {
		v.choices = map[int]*validated{}
	}
	if v.choices[i] == nil {
		v.choices[i] = &validated{}
	}
	return v.choices[i]
}

func (v *Validator) begin(e BlockStart) error {
	c := v.choice(e.Choice)
	switch call, ok := e.Block.(*ToolCall); {
	case c.ended:
		return fmt.Errorf("block %d of choice %d after its end", e.Index, e.Choice)
	case e.Index != len(c.open):
		return fmt.Errorf("block %d starts, want block %d", e.Index, len(c.open))
	case e.Block == nil:
		return fmt.Errorf("block %d starts without a Block", e.Index)
	case ok && (call.CallID == "" || call.Name == ""):
		return fmt.Errorf("tool call %d starts without an id or a name", e.Index)
	}
	c.open = append(c.open, true)
	return nil
}

func (v *Validator) inside(e Event, choice, index int) error {
	c := v.choice(choice)
	if index < 0 || index >= len(c.open) || !c.open[index] {
		return fmt.Errorf("%T for block %d of choice %d, which is not open", e, index, choice)
	}
	return nil
}

func (v *Validator) members(e Members) error {
	switch {
	case e.Choice == Whole:
		return nil
	case e.Index != Whole:
		return v.inside(e, e.Choice, e.Index)
	case v.choice(e.Choice).ended:
		return fmt.Errorf("members of choice %d after its end", e.Choice)
	}
	return nil
}

func (v *Validator) endChoice(e ChoiceEnd) error {
	c := v.choice(e.Choice)
	if c.ended {
		return fmt.Errorf("choice %d ends twice", e.Choice)
	}
	for i, open := range c.open {
		if open {
			return fmt.Errorf("choice %d ends with block %d open", e.Choice, i)
		}
	}
	if e.Stop.Kind == "" {
		return fmt.Errorf("choice %d ends without a stop reason", e.Choice)
	}
	c.ended = true
	return nil
}

func (v *Validator) count(u Usage) error {
	if u.TotalInput() < v.usage.TotalInput() || u.TotalOutput() < v.usage.TotalOutput() {
		return fmt.Errorf("token counts decrease")
	}
	v.usage = u
	return nil
}
