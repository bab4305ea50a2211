package llm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrIncomplete is the fate of a stream that gave no proof of its end.
var ErrIncomplete = errors.New("llm: the stream has not come to its end")

// ErrTooLarge is an answer that is larger than may be collected.
var ErrTooLarge = errors.New("llm: the streamed answer is larger than the limit for collecting it")

// maxParts bounds the parts of one thought, whose numbers an upstream chooses.
const maxParts = 1 << 12

// Collector makes a Response of a stream's events.
type Collector struct {
	// Limit bounds the bytes that are collected; 0 means no bound.
	Limit int

	response Response
	choices  []*collected // in the order in which they began
	size     int
	ended    bool
	failure  *Error
}

// collected is a choice in the making.
type collected struct {
	choice Choice
	texts  []*texts // by block
}

// texts gathers what deltas bring: one text, or one for each part of a thought.
type texts struct {
	parts    []strings.Builder
	forms    []string
	logprobs []string
}

// Add takes one event.
func (c *Collector) Add(e Event) error {
	switch e := e.(type) {
	case Start:
		c.response.ID, c.response.Model, c.response.Created = e.ID, e.Model, e.Created
		c.response.Usage, c.response.Tier, c.response.Ext = e.Usage, e.Tier, e.Ext
	case BlockStart:
		g := c.choice(e.Choice)
		if e.Index != len(g.choice.Blocks) {
			return fmt.Errorf("llm: block %d begins where %d is next", e.Index, len(g.choice.Blocks))
		}
		// A copy, because the event may be for others too.
		g.choice.Blocks = append(g.choice.Blocks, CopyBlock(e.Block))
		g.texts = append(g.texts, &texts{})
		c.size += 128 // so that a flood of empty blocks meets the limit too
	case Delta:
		return c.delta(e)
	case SealDelta:
		return c.inBlock(e.Choice, e.Index, func(b Block, _ *texts) {
			m := b.Common()
			for i := range m.Seals {
				if m.Seals[i].Form == e.Seal.Form && m.Seals[i].Origin == e.Seal.Origin {
					m.Seals[i] = e.Seal
					return
				}
			}
			m.Seals = append(m.Seals, e.Seal)
		})
	case Cite:
		return c.inBlock(e.Choice, e.Index, func(b Block, _ *texts) {
			if t, ok := b.(*Text); ok {
				t.Citations = append(t.Citations, e.Citation)
			}
		})
	case Logprobs:
		return c.inBlock(e.Choice, e.Index, func(_ Block, t *texts) { t.logprobs = append(t.logprobs, string(e.Raw)) })
	case UsageUpdate:
		c.response.Usage = &e.Usage
	case ChoiceEnd:
		g := c.choice(e.Choice)
		g.choice.Stop, g.choice.Ext = e.Stop, e.Ext
	case End:
		c.ended = true
	case Failure:
		c.failure = e.Err
	case BlockEnd, Ping:
	}
	if c.Limit > 0 && c.size > c.Limit {
		return ErrTooLarge
	}
	return nil
}

func (c *Collector) delta(e Delta) error {
	if c.size += len(e.Text); c.Limit > 0 && c.size > c.Limit {
		return ErrTooLarge
	}
	if e.Part < 0 || e.Part > maxParts {
		return fmt.Errorf("llm: a delta for part %d of a block", e.Part)
	}
	return c.inBlock(e.Choice, e.Index, func(_ Block, t *texts) {
		for len(t.parts) <= e.Part {
			t.parts = append(t.parts, strings.Builder{})
			t.forms = append(t.forms, FullReasoning)
		}
		if e.Form != "" {
			t.forms[e.Part] = e.Form
		}
		t.parts[e.Part].WriteString(e.Text)
	})
}

func (c *Collector) choice(index int) *collected {
	for _, g := range c.choices {
		if g.choice.Index == index {
			return g
		}
	}
	g := &collected{choice: Choice{Index: index}}
	c.choices = append(c.choices, g)
	return g
}

func (c *Collector) inBlock(choice, index int, do func(Block, *texts)) error {
	g := c.choice(choice)
	if index < 0 || index >= len(g.texts) {
		return fmt.Errorf("llm: a delta for block %d, which has not begun", index)
	}
	do(g.choice.Blocks[index], g.texts[index])
	return nil
}

// Response is the whole answer. A stream that failed or did not end has none.
func (c *Collector) Response() (*Response, error) {
	switch {
	case c.failure != nil:
		return nil, c.failure
	case !c.ended:
		return nil, ErrIncomplete
	}
	r := c.response
	// Choices may begin in any order, and one that says nothing begins last.
	slices.SortStableFunc(c.choices, func(a, b *collected) int { return a.choice.Index - b.choice.Index })
	for _, g := range c.choices {
		choice := g.choice
		choice.Blocks = nil
		for i, t := range g.texts {
			b := CopyBlock(g.choice.Blocks[i])
			t.fill(b)
			choice.Blocks = append(choice.Blocks, b)
		}
		r.Choices = append(r.Choices, choice)
	}
	return &r, nil
}

// fill puts the gathered text into its block.
func (t *texts) fill(b Block) {
	all := ""
	if len(t.parts) > 0 {
		all = t.parts[0].String()
	}
	switch b := b.(type) {
	case *Text:
		b.Text += all
		b.Logprobs = t.list(b.Logprobs)
	case *Refusal:
		b.Text += all
		b.Logprobs = t.list(b.Logprobs)
	case *ToolCall:
		b.Args += all
	case *Thought:
		for i := range t.parts {
			b.Parts = append(b.Parts, ThoughtPart{Form: t.forms[i], Text: t.parts[i].String()})
		}
	}
}

func (t *texts) list(have Raw) Raw {
	if len(t.logprobs) == 0 {
		return have
	}
	return Raw("[" + strings.Join(t.logprobs, ",") + "]")
}
