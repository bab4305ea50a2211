package translate

import (
	"maps"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// The tags around the reasoning of models whose engine does not separate it.
const (
	thinkStart = "<think>"
	thinkEnd   = "</think>"
)

// thinkDecoder decodes a stream whose text may begin with reasoning in tags.
type thinkDecoder struct {
	protocol.StreamDecoder
	think   *thinkSplitter
	decoded []llm.Event
}

// Decode decodes one event.
func (d *thinkDecoder) Decode(name, data []byte, to []llm.Event) []llm.Event {
	d.decoded = d.StreamDecoder.Decode(name, data, d.decoded[:0])
	return d.think.events(d.decoded, to)
}

// Finish ends the stream.
func (d *thinkDecoder) Finish(to []llm.Event) []llm.Event {
	d.decoded = d.StreamDecoder.Finish(d.decoded[:0])
	return d.think.events(d.decoded, to)
}

// splitThinking separates the reasoning in tags from the text of a whole response.
func splitThinking(mode provider.ThinkTags, resp *llm.Response) (*llm.Response, *llm.Error) {
	var all llm.Collector
	for _, e := range newThinkSplitter(mode).events(llm.Explode(resp), nil) {
		if err := all.Add(e); err != nil {
			return nil, notCollected(err)
		}
	}
	out, err := all.Response()
	if err != nil {
		return nil, notCollected(err)
	}
	return out, nil
}

// thinkSplitter turns reasoning in tags at the beginning of a text into a block of its own.
type thinkSplitter struct {
	opened  bool // the prompt ends with the start tag
	choices map[int]*thinkChoice
}

func newThinkSplitter(mode provider.ThinkTags) *thinkSplitter {
	return &thinkSplitter{opened: mode == provider.ThinkOpened, choices: map[int]*thinkChoice{}}
}

// events appends the events with the reasoning separated.
func (s *thinkSplitter) events(events, to []llm.Event) []llm.Event {
	for _, e := range events {
		to = s.event(e, to)
	}
	return to
}

func (s *thinkSplitter) event(e llm.Event, to []llm.Event) []llm.Event {
	switch e := e.(type) {
	case llm.BlockStart:
		return s.choice(e.Choice).start(e, to)
	case llm.Delta:
		c := s.choice(e.Choice)
		if c.isText(e.Index) {
			return c.text(e.Text, to)
		}
		e.Index = c.number(e.Index)
		return append(to, e)
	case llm.BlockEnd:
		c := s.choice(e.Choice)
		if c.isText(e.Index) {
			return c.end(to)
		}
		return append(to, llm.BlockEnd{Choice: e.Choice, Index: c.number(e.Index)})
	case llm.SealDelta, llm.Cite, llm.Logprobs, llm.Members:
		return s.addition(e, to)
	case llm.ChoiceEnd:
		return append(s.choice(e.Choice).endChoice(to), e)
	case llm.End, llm.Failure:
		for _, index := range slices.Sorted(maps.Keys(s.choices)) {
			to = s.choices[index].flush(to)
		}
	}
	return append(to, e)
}

func (s *thinkSplitter) choice(index int) *thinkChoice {
	c := s.choices[index]
	if c == nil {
		c = &thinkChoice{choice: index, opened: s.opened, numbers: map[int]int{}, upstream: -1}
		s.choices[index] = c
	}
	return c
}

// addition passes on what is added to a block. Additions to a text that has not begun wait
// for it.
func (s *thinkSplitter) addition(e llm.Event, to []llm.Event) []llm.Event {
	choice, index := place(e)
	if choice == llm.Whole || index == llm.Whole {
		return append(to, e)
	}
	c := s.choice(choice)
	if c.isText(index) && !c.textOpen {
		c.waiting = append(c.waiting, e)
		return to
	}
	return append(to, withIndex(e, c.number(index)))
}

// place returns the choice and the block that an event adds to.
func place(e llm.Event) (choice, index int) {
	switch e := e.(type) {
	case llm.SealDelta:
		return e.Choice, e.Index
	case llm.Cite:
		return e.Choice, e.Index
	case llm.Logprobs:
		return e.Choice, e.Index
	case llm.Members:
		return e.Choice, e.Index
	}
	return llm.Whole, llm.Whole
}

func withIndex(e llm.Event, index int) llm.Event {
	switch e := e.(type) {
	case llm.SealDelta:
		e.Index = index
		return e
	case llm.Cite:
		e.Index = index
		return e
	case llm.Logprobs:
		e.Index = index
		return e
	case llm.Members:
		e.Index = index
		return e
	}
	return e
}

// thinkState is where the text of a choice is.
type thinkState int

const (
	beforeThinking thinkState = iota // the text may still begin with the start tag
	inThinking
	afterThinking // behind the end tag, where line breaks are dropped
	inText
)

// thinkChoice splits the first text of a choice.
type thinkChoice struct {
	choice   int
	opened   bool
	state    thinkState
	started  bool // a block has started
	upstream int  // the upstream's number of the text; -1: the choice has no text to split
	block    llm.Block
	blank    []byte // white space that is not decided yet, up to maxHeld bytes
	held     string // text behind it that is not decided yet: at most a part of a tag between two deltas
	waiting  []llm.Event

	numbers                 map[int]int // by the upstream's numbers of blocks
	next                    int         // number of the next block
	thoughtOpen, hasThought bool
	textOpen, ended         bool
}

// isText reports whether a block is the text that is split.
func (c *thinkChoice) isText(index int) bool { return c.upstream >= 0 && index == c.upstream }

func (c *thinkChoice) number(index int) int {
	if n, ok := c.numbers[index]; ok {
		return n
	}
	return index
}

func (c *thinkChoice) newNumber(index int) int {
	n := c.next
	c.next++
	c.numbers[index] = n
	return n
}

// start starts a block. Only a text that is the first block is split.
func (c *thinkChoice) start(e llm.BlockStart, to []llm.Event) []llm.Event {
	first := !c.started
	c.started = true
	if _, isText := e.Block.(*llm.Text); first && isText {
		c.upstream, c.block = e.Index, e.Block
		return to
	}
	to = c.flush(to)
	e.Index = c.newNumber(e.Index)
	return append(to, e)
}

// text reads a part of the text.
func (c *thinkChoice) text(text string, to []llm.Event) []llm.Event {
	c.held += text
	for {
		state := c.state
		switch state {
		case beforeThinking:
			c.findStart()
		case inThinking:
			to = c.findEnd(to)
		case afterThinking:
			if c.held = strings.TrimLeft(c.held, "\r\n"); c.held != "" {
				c.state = inText
			}
		case inText:
			return c.writeText(to)
		}
		if c.state == state { // more text is needed
			return to
		}
	}
}

// white are the characters that may stand around the tags.
const white = " \t\r\n"

// findStart decides whether the text begins with reasoning, if it is long enough.
func (c *thinkChoice) findStart() {
	text := strings.TrimLeft(c.held, white)
	c.blank, c.held = append(c.blank, c.held[:len(c.held)-len(text)]...), text
	rest, tagged := strings.CutPrefix(text, thinkStart)
	switch {
	case tagged:
		c.state, c.blank, c.held = inThinking, nil, rest
	case strings.HasPrefix(thinkStart, text) && len(c.blank) <= maxHeld:
	case c.opened:
		c.state, c.held = inThinking, c.take()
	default:
		c.state, c.held = inText, c.take()
	}
}

// take returns all text that is not decided.
func (c *thinkChoice) take() string {
	text := string(c.blank) + c.held
	c.blank, c.held = nil, ""
	return text
}

// findEnd writes reasoning up to the end tag. It holds back white space and a part of a tag
// at the end of the text, and searches no text twice.
func (c *thinkChoice) findEnd(to []llm.Event) []llm.Event {
	before, rest, found := strings.Cut(c.held, thinkEnd)
	if found {
		if sure := strings.TrimRight(before, white); sure != "" {
			to = c.writeThought(string(c.blank)+sure, to)
		}
		c.state, c.blank, c.held = afterThinking, nil, rest
		return c.endThought(to)
	}
	n := len(before)
	for i := range min(len(thinkEnd), n+1) {
		if strings.HasSuffix(before, thinkEnd[:i]) {
			n = len(before) - i
		}
	}
	sure := strings.TrimRight(before[:n], white)
	if sure != "" {
		to = c.writeThought(string(c.blank)+sure, to)
		c.blank = c.blank[:0]
	}
	c.blank, c.held = append(c.blank, before[len(sure):n]...), before[n:]
	if len(c.blank) > maxHeld {
		to = c.writeThought(string(c.blank), to)
		c.blank = nil
	}
	return to
}

func (c *thinkChoice) writeThought(text string, to []llm.Event) []llm.Event {
	if !c.hasThought {
		text = strings.TrimLeft(text, "\r\n")
	}
	if text == "" {
		return to
	}
	if !c.hasThought {
		c.hasThought, c.thoughtOpen = true, true
		c.next++ // the first block has the number 0
		to = append(to, llm.BlockStart{Choice: c.choice, Block: &llm.Thought{}})
	}
	return append(to, llm.Delta{Choice: c.choice, Text: text, Form: llm.FullReasoning})
}

func (c *thinkChoice) endThought(to []llm.Event) []llm.Event {
	if !c.thoughtOpen {
		return to
	}
	c.thoughtOpen = false
	return append(to, llm.BlockEnd{Choice: c.choice})
}

func (c *thinkChoice) writeText(to []llm.Event) []llm.Event {
	to = c.startText(to)
	if c.held != "" {
		to = append(to, llm.Delta{Choice: c.choice, Index: c.number(c.upstream), Text: c.held})
		c.held = ""
	}
	return to
}

func (c *thinkChoice) startText(to []llm.Event) []llm.Event {
	if c.textOpen {
		return to
	}
	c.textOpen = true
	n := c.newNumber(c.upstream)
	to = append(to, llm.BlockStart{Choice: c.choice, Index: n, Block: c.block})
	for _, e := range c.waiting {
		to = append(to, withIndex(e, n))
	}
	c.waiting = nil
	return to
}

// flush decides text that is held back, because another block follows or the stream ends.
func (c *thinkChoice) flush(to []llm.Event) []llm.Event {
	if c.upstream < 0 || c.ended {
		return to
	}
	switch {
	case c.state == inThinking:
		to = c.writeThought(c.take(), to)
		c.state = afterThinking
		to = c.endThought(to)
	case len(c.blank) > 0 || c.held != "":
		c.state, c.held = inText, c.take()
		to = c.writeText(to)
	}
	return to
}

// end ends the text.
func (c *thinkChoice) end(to []llm.Event) []llm.Event {
	if c.upstream < 0 || c.ended {
		return to
	}
	to = c.flush(to)
	c.ended = true
	if c.textOpen {
		to = append(to, llm.BlockEnd{Choice: c.choice, Index: c.number(c.upstream)})
	}
	return to
}

// endChoice ends the choice. One that consists of an empty text keeps it.
func (c *thinkChoice) endChoice(to []llm.Event) []llm.Event {
	to = c.end(to)
	if c.upstream < 0 || c.next > 0 {
		return to
	}
	return append(c.startText(to), llm.BlockEnd{Choice: c.choice, Index: c.number(c.upstream)})
}
