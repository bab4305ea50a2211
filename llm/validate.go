package llm

import "fmt"

// Validator holds a stream of events to the rules that encoders rely on:
//
//   - one Start first; one End or Failure last, and nothing after it;
//   - blocks of a choice begin in order, each ends once, and nothing but its own
//     deltas comes in between;
//   - a choice ends once, after its blocks; an End needs every choice to have ended;
//   - a tool call has its id and name from the beginning;
//   - token counts do not shrink.
type Validator struct {
	started, over bool
	choices       map[int]*validated
	usage         Usage
}

type validated struct {
	open  []bool // by block
	kinds []Block
	ended bool
}

// Add checks one event against what came before it.
func (v *Validator) Add(e Event) error {
	if v.over {
		return fmt.Errorf("%T after the end", e)
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
				return fmt.Errorf("End before choice %d has ended", i)
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

// Finish reports a stream that has no last event.
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
		return fmt.Errorf("block %d begins where %d is next", e.Index, len(c.open))
	case e.Block == nil:
		return fmt.Errorf("block %d has no kind", e.Index)
	case ok && (call.CallID == "" || call.Name == ""):
		return fmt.Errorf("call %d begins without its id or its name", e.Index)
	}
	c.open = append(c.open, true)
	c.kinds = append(c.kinds, e.Block)
	return nil
}

func (v *Validator) inside(e Event, choice, index int) error {
	c := v.choice(choice)
	if index < 0 || index >= len(c.open) || !c.open[index] {
		return fmt.Errorf("%T for block %d of choice %d, which is not open", e, index, choice)
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
		return fmt.Errorf("choice %d ends without a reason", e.Choice)
	}
	c.ended = true
	return nil
}

func (v *Validator) count(u Usage) error {
	if u.TotalInput() < v.usage.TotalInput() || u.TotalOutput() < v.usage.TotalOutput() {
		return fmt.Errorf("token counts shrink")
	}
	v.usage = u
	return nil
}
