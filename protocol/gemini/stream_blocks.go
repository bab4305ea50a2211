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

	logprobs []byte // items in the neutral form that no text has yet
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

func (c *choice) cite() {
	c.spans = slices.DeleteFunc(c.spans, func(s span) bool {
		base := 0 // in a stream only the joined text is known
		if c.events == 1 && s.part > 0 {
			if s.part >= len(c.bases) {
				return false
			}
			base = c.bases[s.part]
		}
		start, end := base+s.start-c.said, base+s.end-c.said
		cite := s.citation
		switch {
		case s.end == 0: // it refers to the whole text
		case start < 0 || start >= c.ruler.bytes:
			return false
		default:
			cite.Start, cite.End = c.ruler.chars(start), c.ruler.chars(end)
		}
		c.s.emit(llm.Cite{Choice: c.index, Index: c.blocks - 1, Citation: cite})
		return true
	})
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
