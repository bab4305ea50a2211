package protocoltest

import (
	"fmt"

	"github.com/isogloss-gateway/isogloss/llm"
)

// validator checks that a stream of events follows the rules of package llm.
type validator struct {
	started, over bool
	choices       map[int]*validated
	usage         llm.Usage
}

type validated struct {
	open  []bool // by block index
	ended bool
}

// Add checks the next event.
func (v *validator) Add(e llm.Event) error {
	if v.over {
		return fmt.Errorf("%T after End or Failure", e)
	}
	if _, first := e.(llm.Start); !v.started && !first {
		switch e.(type) {
		case llm.Ping, llm.Failure:
		default:
			return fmt.Errorf("%T before Start", e)
		}
	}
	switch e := e.(type) {
	case llm.Start:
		if v.started {
			return fmt.Errorf("a second Start")
		}
		v.started = true
	case llm.BlockStart:
		return v.begin(e)
	case llm.Delta:
		return v.inside(e, e.Choice, e.Index)
	case llm.SealDelta:
		return v.inside(e, e.Choice, e.Index)
	case llm.Cite:
		return v.inside(e, e.Choice, e.Index)
	case llm.Logprobs:
		return v.inside(e, e.Choice, e.Index)
	case llm.Members:
		return v.members(e)
	case llm.BlockEnd:
		if err := v.inside(e, e.Choice, e.Index); err != nil {
			return err
		}
		v.choices[e.Choice].open[e.Index] = false
	case llm.ChoiceEnd:
		return v.endChoice(e)
	case llm.UsageUpdate:
		return v.count(e.Usage)
	case llm.End:
		v.over = true
		for i, c := range v.choices {
			if !c.ended {
				return fmt.Errorf("choice %d is open at the End", i)
			}
		}
	case llm.Failure:
		v.over = true
		if e.Err == nil {
			return fmt.Errorf("a Failure without an error")
		}
	case llm.Ping:
	}
	return nil
}

// Finish returns an error if the stream has neither End nor Failure.
func (v *validator) Finish() error {
	if !v.over {
		return fmt.Errorf("the stream has neither End nor Failure")
	}
	return nil
}

func (v *validator) choice(i int) *validated {
	if v.choices == nil {
		v.choices = map[int]*validated{}
	}
	if v.choices[i] == nil {
		v.choices[i] = &validated{}
	}
	return v.choices[i]
}

func (v *validator) begin(e llm.BlockStart) error {
	c := v.choice(e.Choice)
	switch call, ok := e.Block.(*llm.ToolCall); {
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

func (v *validator) inside(e llm.Event, choice, index int) error {
	c := v.choice(choice)
	if index < 0 || index >= len(c.open) || !c.open[index] {
		return fmt.Errorf("%T for block %d of choice %d, which is not open", e, index, choice)
	}
	return nil
}

func (v *validator) members(e llm.Members) error {
	switch {
	case e.Choice == llm.Whole:
		return nil
	case e.Index != llm.Whole:
		return v.inside(e, e.Choice, e.Index)
	case v.choice(e.Choice).ended:
		return fmt.Errorf("members of choice %d after its end", e.Choice)
	}
	return nil
}

func (v *validator) endChoice(e llm.ChoiceEnd) error {
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

func (v *validator) count(u llm.Usage) error {
	if u.TotalInput() < v.usage.TotalInput() || u.TotalOutput() < v.usage.TotalOutput() {
		return fmt.Errorf("token counts decrease")
	}
	v.usage = u
	return nil
}
