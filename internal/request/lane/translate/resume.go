package translate

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
)

// continuedTrailer is the trailer that names the target that continued a stream, and the
// number of text bytes sent before.
const continuedTrailer = "Isogloss-Continued"

// resume has another target continue a truncated stream, or ends the stream with its
// error.
func (w *streamWriter) resume(write eventFunc) *llm.Error {
	cause := w.broken
	w.resumable.usage = w.attempt.summary.Usage
	w.broken = nil
	if next, ok := w.delivery.Path.Resume(cause, rest{w.attempt, w.resumable}); ok {
		w.attempt = next.(*attempt)
		w.undo = &w.attempt.undo
		w.resumable.startPart()
		w.markResumed()
		return w.attempt.readStream(w.delivery, write)
	}
	w.resumable = nil
	_, err := write([]llm.Event{llm.Failure{Err: cause}}, time.Now())
	return err
}

// markResumed tells the client that another target continues the stream: in a comment,
// if its dialect allows one, and in a trailer.
func (w *streamWriter) markResumed() {
	d := w.delivery
	d.Result.Continued++
	text := exchange.HeaderText(w.attempt.target.String()) + ";at=" + strconv.Itoa(len(w.resumable.text))
	d.Writer.SetHeader(continuedTrailer, text)
	d.Comment("continued by "+text, w)
}

// rest is the lane that encodes the request for the rest of a stream.
type rest struct {
	before *attempt
	sent   *resumable
}

// errNotResumable is the error of a target that cannot continue a response.
var errNotResumable = &llm.Error{Kind: llm.InvalidRequest, Code: "not_resumable", Message: "the target cannot continue a response"}

// Prepare encodes the request with the beginning of the response as its last turn. Some
// targets repeat that beginning (llama.cpp since 0.5) and some do not, so it has to be
// long enough to be recognized.
func (r rest) Prepare(c *exchange.Call, t *exchange.Target, _ exchange.Options) (exchange.Prepared, *llm.Error) {
	p, prefill := t.Provider, r.sent.prefill()
	switch p.Continuation {
	case "", provider.NoContinuation:
		return nil, errNotResumable
	case provider.ContinueTrailing:
		if len(prefill) < minRepeat || c.EncodeTarget(t).Gates.NoPrefill {
			return nil, errNotResumable
		}
	}
	b := r.before
	a := b.lane.newAttempt(c, t)
	a.codec, a.ask, a.summary, a.resumes = b.codec, b.ask, b.summary, true
	way := t.Dialect.Continuations[string(p.Continuation)]
	turn := llm.Turn{Role: llm.Assistant, Blocks: []llm.Block{&llm.Text{Text: prefill}}, Ext: way.Turn}
	ask := *b.ask
	ask.Turns = append(ask.Turns[:len(ask.Turns):len(ask.Turns)], turn)
	ask.Stream, ask.IncludeUsage = true, true
	out, err := a.encodeRequest(&ask, &llm.Report{Mode: llm.Loose})
	if err != nil {
		return a, err
	}
	if out.Body, err = exchange.SetMembers(out.Body, way.Members); err != nil {
		return a, err
	}
	a.undo = llm.Undo{Names: out.Names}
	a.request.Stream = true
	err = a.setRequest(out, b.losses)
	a.created = b.created
	return a, err
}

// resumable holds the sent part of a response, for a continuation. The response can be
// continued only while it consists of a single text.
type resumable struct {
	limit   int
	text    []byte
	index   int  // of the text block
	started bool // a block was started
	open    bool // the text block is open
	other   bool // the response has other content, or too much text

	usage  *llm.Usage // of the earlier parts
	part   *part      // the part that continues the text; nil in the first part
	joined []llm.Event
}

// follow records an event that is sent to the client.
func (s *resumable) follow(e llm.Event) {
	if s == nil {
		return
	}
	switch e := e.(type) {
	case llm.BlockStart:
		_, text := e.Block.(*llm.Text)
		s.other = s.other || s.started || !text || e.Choice != 0
		s.started, s.open, s.index = true, true, e.Index
	case llm.Delta:
		if len(s.text)+len(e.Text) > s.limit {
			s.other = true
		}
		if !s.other {
			s.text = append(s.text, e.Text...)
		}
	case llm.BlockEnd:
		s.open = false
	case llm.SealDelta, llm.ChoiceEnd, llm.Cite:
		s.other = true
	}
}

// ready reports whether the stream can be resumed now.
func (s *resumable) ready() bool {
	return s != nil && s.open && !s.other && len(bytes.TrimSpace(s.text)) > 0
}

// prefill returns the text without trailing white space: some vendors reject a last
// message that ends in it.
func (s *resumable) prefill() string { return strings.TrimRight(string(s.text), " \t\r\n") }

// startPart starts another part.
func (s *resumable) startPart() { s.part = &part{block: -1, comparing: true} }

// minRepeat is the number of bytes that must match to count as a repetition.
const minRepeat = 16

// part is the part of a stream that continues an earlier one.
type part struct {
	block     int // index of the block that continues the text; -1 before it starts
	comparing bool
	held      []byte // new text that may still repeat the old text
	skip      map[int]bool
	shift     int // added to the indexes of later blocks
}

// joinAll joins the events of a part to the parts before.
func (s *resumable) joinAll(events []llm.Event) []llm.Event {
	if s == nil || s.part == nil {
		return events
	}
	s.joined = s.joined[:0]
	for _, e := range events {
		var ok bool
		if s.joined, ok = s.join(e, s.joined); !ok {
			s.other = true // it is not continued a second time
			return append(s.joined, llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated",
				Message: "connection lost: the upstream broke off its response, and no other target could continue it"}})
		}
	}
	return s.joined
}

// join makes an event of a part continue the earlier parts. It fails if the part repeats
// the response from the beginning in different words.
func (s *resumable) join(e llm.Event, to []llm.Event) ([]llm.Event, bool) {
	p := s.part
	switch e := e.(type) {
	case llm.Start:
		return to, true
	case llm.UsageUpdate:
		if s.usage != nil {
			e.Usage = e.Usage.Add(*s.usage)
		}
		return append(to, e), true
	case llm.BlockStart:
		return s.joinBlock(e, to), true
	case llm.Delta:
		if p.skip[e.Index] {
			return to, true
		}
		if e.Index != p.block {
			e.Index += p.shift
			return append(to, e), true
		}
		text, ok := s.joinText(e.Text)
		if text == "" || !ok {
			return to, ok
		}
		return append(to, llm.Delta{Index: s.index, Text: text}), true
	case llm.BlockEnd:
		if p.skip[e.Index] {
			return to, true
		}
		if e.Index != p.block {
			e.Index += p.shift
			return append(to, e), true
		}
		to, ok := s.endText(to)
		return append(to, llm.BlockEnd{Index: s.index}), ok
	case llm.SealDelta:
		if p.skip[e.Index] {
			return to, true
		}
		e.Index += p.shift
		return append(to, e), true
	}
	return append(to, e), true
}

// joinBlock continues the text with the first text block of a part. It drops reasoning
// before that block, because the response has started already.
func (s *resumable) joinBlock(e llm.BlockStart, to []llm.Event) []llm.Event {
	p := s.part
	switch e.Block.(type) {
	case *llm.Thought:
		if p.skip == nil {
			p.skip = map[int]bool{}
		}
		p.skip[e.Index] = true
		return to
	case *llm.Text:
		if p.block < 0 {
			p.block, p.shift = e.Index, s.index-e.Index
			return to
		}
	}
	if p.block < 0 { // the part has no text: the old text ends here
		p.block, p.shift = -2, s.index+1-e.Index
		to = append(to, llm.BlockEnd{Index: s.index})
	}
	e.Index += p.shift
	return append(to, e)
}

// joinText removes from new text what the client already has: the whole beginning, if the
// target repeats it, or the white space that prefill removed.
func (s *resumable) joinText(text string) (string, bool) {
	p := s.part
	if !p.comparing {
		return text, true
	}
	repeats := len(p.held)+len(text) < len(s.text) && string(s.text[len(p.held):][:len(text)]) == text
	if p.held = append(p.held, text...); repeats {
		return "", true // may still become a repetition
	}
	p.comparing = false
	return s.newText()
}

// endText ends a text that is still being compared.
func (s *resumable) endText(to []llm.Event) ([]llm.Event, bool) {
	if !s.part.comparing {
		return to, true
	}
	s.part.comparing = false
	text, ok := s.newText()
	if text != "" {
		to = append(to, llm.Delta{Index: s.index, Text: text})
	}
	return to, ok
}

func (s *resumable) newText() (string, bool) {
	held := s.part.held
	if bytes.HasPrefix(held, s.text) && len(s.text) >= minRepeat {
		return string(held[len(s.text):]), true
	}
	if commonPrefix(held, s.text) >= minRepeat {
		return "", false // different words from the beginning
	}
	blank := s.text[len(s.prefill()):]
	return string(bytes.TrimPrefix(held, blank)), true
}

// commonPrefix returns the length of the common prefix of two texts.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
