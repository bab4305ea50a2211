package gemini

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// choice is the state of one candidate.
type choice struct {
	s       *streamDecoder
	index   int
	events  int
	blocks  int // number of blocks that have begun
	open    blockKind
	call    *pendingCall
	calls   int // number of complete calls
	finish  string
	message string
	blocked bool
	apart   bool // sources refer to parts by index, so parts are not joined

	said  int   // bytes of text before the open block
	bases []int // where the parts of the first event begin in the text
	ruler ruler
	spans []span

	sources llm.Ext // the metadata of the spans, as they came
	missed  bool    // a text lacks a span
	budget  int     // bytes that the citations may still take

	logprobs     []byte         // items in the neutral form that no text has yet
	lastLogprobs jsontext.Value // of the last event that had some
}

// blockKind is the kind of the open block.
type blockKind int

func (c *choice) part(p *part) {
	if c.events == 1 {
		c.bases = append(c.bases, c.said+c.ruler.bytes)
	}
	if p.raw != nil {
		c.other(p)
		return
	}
	kind := textBlock
	if p.thought {
		kind = thoughtBlock
	}
	if p.signature == "" {
		if p.text == "" {
			return // an empty delta opens no block
		}
		if c.open != kind || c.call != nil || c.apart {
			c.begin(kind)
		}
		c.delta(p.text)
		return
	}
	// A signed part is a block of its own, even if it is empty (GEM-09, GEM-11). The seal comes
	// first: some dialects can add it only where a block starts.
	c.begin(kind)
	c.s.emit(llm.SealDelta{Choice: c.index, Index: c.blocks - 1, Seal: seal(p.signature)})
	if p.text != "" {
		c.delta(p.text)
	}
	c.close()
}

func seal(signature string) llm.Seal {
	return llm.Seal{Form: llm.Signature, Data: signature, Origin: own}
}

func (c *choice) begin(kind blockKind) {
	c.close()
	c.open = kind
	var b llm.Block = &llm.Text{}
	if kind == thoughtBlock {
		b = &llm.Thought{}
	}
	c.start(b)
}

func (c *choice) start(b llm.Block) {
	c.s.emit(llm.BlockStart{Choice: c.index, Index: c.blocks, Block: b})
	c.blocks++
}

func (c *choice) delta(text string) {
	e := llm.Delta{Choice: c.index, Index: c.blocks - 1, Text: text}
	if c.open == thoughtBlock {
		e.Form = llm.SummaryReasoning // Google shows only summaries of thinking
	} else {
		c.ruler.add(text)
	}
	c.s.emit(e)
	if c.open == textBlock {
		c.emitLogprobs()
	}
}

// addLogprobs takes the log probabilities of an event.
func (c *choice) addLogprobs(raw jsontext.Value) {
	if items := readLogprobs(raw); len(items) > 0 {
		if len(c.logprobs) > 0 {
			c.logprobs = append(c.logprobs, ',')
		}
		c.logprobs = append(c.logprobs, items...)
	}
}

// emitLogprobs adds the log probabilities to the open text. They are those of an event, which
// may have several texts: the first gets all.
func (c *choice) emitLogprobs() {
	if len(c.logprobs) > 0 {
		c.s.emit(llm.Logprobs{Choice: c.index, Index: c.blocks - 1, Raw: llm.Raw(c.logprobs)})
		c.logprobs = nil
	}
}

// close ends the open block. A text gets its sources first.
func (c *choice) close() {
	c.closeCall()
	if c.open == noBlock {
		return
	}
	if c.open == textBlock {
		c.cite()
		c.said += c.ruler.bytes
		c.ruler.reset()
	}
	c.open = noBlock
	c.s.emit(llm.BlockEnd{Choice: c.index, Index: c.blocks - 1})
}

// Limits of the citations of a choice: many may repeat one source, and one may be of many texts.
const (
	freeCitations  = 1 << 20 // bytes
	costPerByte    = 4       // bytes more for each byte of metadata
	costOfCitation = 64      // bytes, with an empty source
	maxTexts       = 64      // that end before a span is given up
)

// cite gives the open text its sources. The rest of a source that goes beyond its end belongs to the next text.
func (c *choice) cite() {
	later := c.spans[:0]
	wait := func(s span) {
		if s.texts++; s.texts < maxTexts {
			later = append(later, s)
		} else {
			c.missed = true
		}
	}
	for _, s := range c.spans {
		start, end := s.start-c.said, s.end-c.said
		if c.events == 1 && s.part > 0 { // in a stream only the joined text is known
			if s.part >= len(c.bases) {
				wait(s)
				continue
			}
			start, end = start+c.bases[s.part], end+c.bases[s.part]
		}
		cite := s.citation
		switch {
		case s.end == 0: // it refers to the whole text
		case end <= 0, start >= c.ruler.bytes:
			wait(s)
			continue
		default:
			c.missed = c.missed || start < 0 // its beginning is in a text that has ended
			cite.Start, cite.End = c.ruler.chars(max(start, 0)), c.ruler.chars(end)
			if rest := end - c.ruler.bytes; rest > 0 {
				s.part, s.start, s.end, s.split = 0, c.said+c.ruler.bytes, c.said+end, true
				wait(s)
			}
		}
		if c.budget -= costOfCitation + len(cite.URL) + len(cite.Title) + len(cite.Quote); c.budget < 0 {
			c.missed = true
			continue
		}
		c.s.emit(llm.Cite{Choice: c.index, Index: c.blocks - 1, Citation: cite})
	}
	c.spans = later
}

// rest returns the members that came after their text: sources and log probabilities. Of a non-streaming response all
// are kept.
func (c *choice) rest() (e llm.Ext) {
	if c.s.whole {
		return e
	}
	if c.missed || slices.ContainsFunc(c.spans, func(s span) bool { return !s.split }) {
		e.Members = c.sources.Members
	}
	if len(c.logprobs) > 0 {
		keepRaw(&e, "logprobsResult", c.lastLogprobs)
	}
	if len(e.Members) > 0 {
		e.Protocol = own
	}
	return e
}

// other decodes a part that is more than text.
func (c *choice) other(p *part) {
	if p.raw[0] != '{' {
		return
	}
	var w Part
	if err := wire.UnmarshalLenient(p.raw, &w); err != nil {
		c.s.fail(badAnswer(err)) // a call that cannot be decoded must not be dropped
		return
	}
	if f := w.FunctionCall.Ptr(); f != nil {
		c.functionCall(f, p.signature)
		return
	}
	if w.Text.IsSet() && !w.InlineData.IsSet() && !w.FileData.IsSet() && serverPart(&w) == "" {
		plain := *p
		plain.raw = nil
		c.part(&plain) // text with an unknown member
		return
	}
	b := readPart(&w)
	if t, ok := b.(*llm.Text); ok && t.Text == "" && len(t.Seals) == 0 {
		return
	}
	c.close()
	c.start(b)
	c.s.emit(llm.BlockEnd{Choice: c.index, Index: c.blocks - 1})
}
