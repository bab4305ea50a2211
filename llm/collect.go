package llm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrIncomplete is the error of a stream without an End event.
var ErrIncomplete = errors.New("llm: the stream ended without an end event")

// ErrTooLarge is the error of a response that exceeds [Collector.Limit].
var ErrTooLarge = errors.New("llm: the streamed response exceeds the limit for collecting it")

// maxParts limits the parts of one thought, because the upstream chooses their
// numbers.
const maxParts = 1 << 12

// Collector builds a Response from the events of a stream.
type Collector struct {
	// Limit is the maximum size in bytes; 0 means no limit.
	Limit int

	response Response
	members  memberList
	choices  []*choiceBuilder // in the order of their first event
	size     int
	ended    bool
	failure  *Error
}

// choiceBuilder collects the events of one choice.
type choiceBuilder struct {
	choice  Choice
	members memberList
	texts   []*blockText // by block index
}

// blockText collects the deltas of one block: one text, or one for each part of a
// thought.
type blockText struct {
	parts    []*strings.Builder // which must not be copied
	forms    []string
	logprobs []string
	members  memberList
}

// Add adds the next event.
func (c *Collector) Add(e Event) error {
	if c.size += sizeOf(e); c.Limit > 0 && c.size > c.Limit {
		return ErrTooLarge
	}
	switch e := e.(type) {
	case Start:
		c.response.ID, c.response.Model, c.response.Created = e.ID, e.Model, e.Created
		c.response.Usage, c.response.Tier, c.response.Ext = e.Usage, e.Tier, e.Ext
	case BlockStart:
		g := c.choice(e.Choice)
		if e.Index != len(g.choice.Blocks) {
			return fmt.Errorf("llm: block %d starts, want block %d", e.Index, len(g.choice.Blocks))
		}
		// A copy, because others may read the event too.
		g.choice.Blocks = append(g.choice.Blocks, CopyBlock(e.Block))
		g.texts = append(g.texts, &blockText{})
	case Delta:
		return c.delta(e)
	case SealDelta:
		return c.inBlock(e.Choice, e.Index, func(b Block, _ *blockText) {
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
		return c.inBlock(e.Choice, e.Index, func(b Block, _ *blockText) {
			if t, ok := b.(*Text); ok {
				t.Citations = append(t.Citations, e.Citation)
			}
		})
	case Logprobs:
		return c.inBlock(e.Choice, e.Index, func(_ Block, t *blockText) { t.logprobs = append(t.logprobs, string(e.Raw)) })
	case Members:
		if err := c.keep(e); err != nil {
			return err
		}
	case UsageUpdate:
		c.response.Usage, c.response.UsageTier = &e.Usage, e.Tier
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

// minSize is the size of a block, a citation or a choice without text, so that the limit also applies to these.
const minSize = 128

// sizeOf returns the bytes that an event adds to a response, other than members.
func sizeOf(e Event) int {
	switch e := e.(type) {
	case BlockStart:
		switch b := e.Block.(type) {
		case *Media:
			return minSize + len(b.Data) + len(b.URL)
		case *ServerCall:
			return minSize + len(b.Raw)
		case *Opaque:
			return minSize + len(b.Raw)
		}
		return minSize
	case Delta:
		return len(e.Text)
	case SealDelta:
		return len(e.Seal.Data)
	case Cite:
		c := e.Citation
		return minSize + len(c.URL) + len(c.Title) + len(c.Quote) + len(c.Raw)
	case Logprobs:
		return len(e.Raw)
	case ChoiceEnd:
		return minSize
	}
	return 0
}

func (c *Collector) keep(e Members) error {
	switch {
	case e.Choice == Whole:
		c.size += c.members.add(e)
	case e.Index == Whole:
		c.size += c.choice(e.Choice).members.add(e)
	default:
		return c.inBlock(e.Choice, e.Index, func(_ Block, t *blockText) { c.size += t.members.add(e) })
	}
	return nil
}

func (c *Collector) delta(e Delta) error {
	if e.Part < 0 || e.Part > maxParts {
		return fmt.Errorf("llm: delta for part %d of a block, want 0 to %d", e.Part, maxParts)
	}
	return c.inBlock(e.Choice, e.Index, func(_ Block, t *blockText) {
		for len(t.parts) <= e.Part {
			t.parts = append(t.parts, &strings.Builder{})
			t.forms = append(t.forms, FullReasoning)
		}
		if e.Form != "" {
			t.forms[e.Part] = e.Form
		}
		t.parts[e.Part].WriteString(e.Text)
	})
}

func (c *Collector) choice(index int) *choiceBuilder {
	for _, g := range c.choices {
		if g.choice.Index == index {
			return g
		}
	}
	g := &choiceBuilder{choice: Choice{Index: index}}
	c.choices = append(c.choices, g)
	return g
}

func (c *Collector) inBlock(choice, index int, do func(Block, *blockText)) error {
	g := c.choice(choice)
	if index < 0 || index >= len(g.texts) {
		return fmt.Errorf("llm: delta for block %d, which has not started", index)
	}
	do(g.choice.Blocks[index], g.texts[index])
	return nil
}

// Response returns the complete response. It returns an error if the stream failed
// or has not ended.
func (c *Collector) Response() (*Response, error) {
	switch {
	case c.failure != nil:
		return nil, c.failure
	case !c.ended:
		return nil, ErrIncomplete
	}
	r := c.response
	r.Ext = c.members.joinedTo(r.Ext)
	// Choices may start in any order, and an empty one starts when it ends.
	slices.SortStableFunc(c.choices, func(a, b *choiceBuilder) int { return a.choice.Index - b.choice.Index })
	for _, g := range c.choices {
		choice := g.choice
		choice.Blocks, choice.Ext = nil, g.members.joinedTo(choice.Ext)
		for i, t := range g.texts {
			b := CopyBlock(g.choice.Blocks[i])
			t.fill(b)
			b.Common().Ext = t.members.joinedTo(b.Common().Ext)
			choice.Blocks = append(choice.Blocks, b)
		}
		r.Choices = append(r.Choices, choice)
	}
	return &r, nil
}

// fill adds the collected text to its block.
func (t *blockText) fill(b Block) {
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

func (t *blockText) list(have Raw) Raw {
	if len(t.logprobs) == 0 {
		return have
	}
	return Raw("[" + strings.Join(t.logprobs, ",") + "]")
}

// memberList collects the members of Members events in the order of their first
// occurrence.
type memberList struct {
	protocol string
	names    []string
	values   map[string][]Raw // one value, or the arrays to join into one
}

// add adds the event's members and returns the number of bytes by which the list has
// grown.
func (g *memberList) add(e Members) int {
	if g.values == nil {
		g.protocol, g.values = e.Ext.Protocol, map[string][]Raw{}
	}
	grown := 0
	for _, m := range e.Ext.Members {
		old, seen := g.values[m.Name]
		switch {
		case !seen:
			g.names = append(g.names, m.Name)
			g.values[m.Name] = []Raw{m.Value}
			grown += len(m.Name) + len(m.Value)
		case e.Append:
			g.values[m.Name] = append(old, m.Value)
			grown += len(m.Value)
		case m.Value != "null":
			g.values[m.Name] = []Raw{m.Value}
			grown += len(m.Value) - len(old[0])
		}
	}
	return grown
}

// joinedTo returns e with the collected members after its own.
func (g *memberList) joinedTo(e Ext) Ext {
	if len(g.names) == 0 {
		return e
	}
	out := Ext{Protocol: g.protocol, Members: slices.Clone(e.Members)}
	for _, name := range g.names {
		value := g.values[name][0]
		if len(g.values[name]) > 1 {
			value = joinArrays(g.values[name])
		}
		out.Members = append(out.Members, Member{Name: name, Value: value})
	}
	return out
}

// joinArrays returns one JSON array with the items of all arrays. It ignores values
// that are not arrays.
func joinArrays(arrays []Raw) Raw {
	var items []string
	for _, l := range arrays {
		text := strings.TrimSpace(string(l))
		if len(text) < 2 || text[0] != '[' {
			continue
		}
		if inner := strings.TrimSpace(text[1 : len(text)-1]); inner != "" {
			items = append(items, inner)
		}
	}
	return Raw("[" + strings.Join(items, ",") + "]")
}
