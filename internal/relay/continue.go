package relay

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// continuedTrailer says, after a stream, who took it up and after how many
// characters.
const continuedTrailer = "Isogloss-Continued"

// continues reports whether a stream is taken up again if it breaks off. Such a
// stream always goes through the neutral model: only there the two parts can be
// made one.
func (x *exchange) continues() bool {
	return x.route.Continue && x.endpoint.generates && x.ask.stream
}

// resume asks for the rest of a stream that broke off, of whomever can be asked
// so. It reports whether the stream goes on.
func (r *Relay) resume(x *exchange, s *translator) bool {
	for i := range x.line {
		c := &x.line[(i+1)%len(x.line)] // the first in line comes last: mostly it is the one that has just failed
		if !continuable(c.target, s.spoken) || x.seen.Attempts >= x.state.Retries.Attempts || x.ctx.Err() != nil {
			continue
		}
		place, ok := c.target.Slots.TryEnter(x.class)
		if !ok {
			continue
		}
		if err := r.askRest(x, c.target, place, s.spoken); err != nil {
			x.failed(c, err)
			x.report(err)
			continue
		}
		s.undo = &x.translation.undo
		s.spoken.resumed()
		r.mark(x, s.spoken)
		return true
	}
	return false
}

// continuable reports whether a target can be asked for the rest. Some that take the
// beginning as the last turn say it again, llama.cpp from 0.5 on, and some do not, so it has
// to be long enough to be known when it comes again.
func continuable(t route.Target, s *spoken) bool {
	switch t.Provider.Continuation {
	case "", provider.NoContinuation:
		return false
	case provider.ContinueTrailing:
		return len(s.prefill()) >= leastRepeat
	}
	return true
}

// askRest makes an attempt that asks for the rest of an answer.
func (r *Relay) askRest(x *exchange, t route.Target, place limit.Permit, s *spoken) *llm.Error {
	before := x.translation
	x.renew()
	x.translation, x.place = before, place
	x.name(&t)
	x.target, x.speaks = t, r.codecs[t.Provider.Protocol]
	if err := r.translateRest(x, before, s.prefill()); err != nil {
		return err
	}
	x.begin()
	err := r.attempt(x, x.request(x.path))
	x.hear()
	if err == nil && mediaType(x.upstream.Header) != "text/event-stream" {
		err = &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream did not stream its answer"}
	}
	return err
}

// translateRest writes the request with the answer's beginning as its last turn.
func (r *Relay) translateRest(x *exchange, before *translation, prefill string) *llm.Error {
	p := x.target.Provider
	turn := llm.Turn{Role: llm.Assistant, Blocks: []llm.Block{&llm.Text{Text: prefill}}}
	if p.Continuation == provider.ContinuePrefix {
		turn.Ext = llm.Ext{Protocol: string(protocol.OpenAIChat), Members: []llm.Member{{Name: "prefix", Value: "true"}}}
	}
	ask := *before.ask
	ask.Turns = append(ask.Turns[:len(ask.Turns):len(ask.Turns)], turn)
	ask.Stream, ask.IncludeUsage = true, true
	report := llm.Report{Mode: llm.Loose}
	out, err := x.speaks.EncodeRequest(&ask, x.upstreamTarget(), &report)
	if err != nil {
		return err
	}
	if out.Body, err = applyQuirks(out.Body, p.Quirks); err != nil {
		return err
	}
	if p.Continuation == provider.ContinueVLLM {
		if out.Body, err = withMembers(out.Body, "continue_final_message", "true", "add_generation_prompt", "false"); err != nil {
			return err
		}
	}
	x.sendAs(&translation{ask: before.ask, out: out, undo: llm.Undo{Names: out.Names}, losses: before.losses, summary: before.summary})
	x.translation.created = before.created
	x.streams = true
	return nil
}

// withMembers sets top-level members of a body.
func withMembers(body []byte, pairs ...string) ([]byte, *llm.Error) {
	for i := 0; i+1 < len(pairs); i += 2 {
		o, err := index(body, span{0, len(body)}, nil)
		if err != nil {
			return nil, err
		}
		body = patch(body, []edit{o.set(pairs[i], pairs[i+1])})
	}
	return body, nil
}

// mark tells the client that the rest is another's: in a comment, where the
// dialect's clients can read one, and after the end.
func (r *Relay) mark(x *exchange, s *spoken) {
	x.seen.Continued++
	text := headerText(x.target.String()) + ";at=" + strconv.Itoa(len(s.text))
	x.out.header().Set(continuedTrailer, text)
	if x.endpoint.comments() {
		_ = x.send(sse.AppendComment(nil, "continued by "+text), time.Now()) // the next write tells of a client that left
	}
}

// spoken is what has been said of an answer that may have to be continued. It can
// be where one text is all there is of it so far.
type spoken struct {
	limit int
	text  []byte
	index int  // of the text's block
	begun bool // a block was opened
	open  bool // and it is the text's, and still open
	other bool // there was something else, or too much

	usage *llm.Usage // of the parts before
	next  joint
}

// hear follows the events that the client is sent.
func (s *spoken) hear(e llm.Event) {
	switch e := e.(type) {
	case llm.BlockStart:
		_, text := e.Block.(*llm.Text)
		s.other = s.other || s.begun || !text || e.Choice != 0
		s.begun, s.open, s.index = true, true, e.Index
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

// resumable reports whether the rest can be asked for.
func (s *spoken) resumable() bool {
	return s != nil && s.open && !s.other && len(bytes.TrimSpace(s.text)) > 0
}

// prefill is the beginning as it is sent: some vendors refuse a last message that
// ends in white space.
func (s *spoken) prefill() string { return strings.TrimRight(string(s.text), " \t\r\n") }

// resumed begins another part.
func (s *spoken) resumed() {
	s.next = joint{block: -1, comparing: true}
}

// leastRepeat is how much of the beginning must come again to be taken for a
// repetition and not for chance.
const leastRepeat = 16

// joint is where two parts meet.
type joint struct {
	block     int // of the new part that carries on with the text; -1 until it came
	comparing bool
	held      []byte // of the new text, until it is known what it is
	skip      map[int]bool
	shift     int // what the new part's later blocks are moved by
}

// join makes the events of a new part go on from the old one. A part that begins
// the answer anew and does not repeat it word for word cannot be joined.
func (s *spoken) join(e llm.Event, to []llm.Event) ([]llm.Event, bool) {
	j := &s.next
	switch e := e.(type) {
	case llm.Start:
		return to, true
	case llm.UsageUpdate:
		e.Usage = addUsage(e.Usage, s.usage)
		return append(to, e), true
	case llm.BlockStart:
		return s.joinBlock(e, to), true
	case llm.Delta:
		if j.skip[e.Index] {
			return to, true
		}
		if e.Index != j.block {
			e.Index += j.shift
			return append(to, e), true
		}
		text, ok := s.joinText(e.Text)
		if text == "" || !ok {
			return to, ok
		}
		return append(to, llm.Delta{Index: s.index, Text: text}), true
	case llm.BlockEnd:
		if j.skip[e.Index] {
			return to, true
		}
		if e.Index != j.block {
			e.Index += j.shift
			return append(to, e), true
		}
		to, ok := s.settle(to)
		return append(to, llm.BlockEnd{Index: s.index}), ok
	case llm.SealDelta:
		if j.skip[e.Index] {
			return to, true
		}
		e.Index += j.shift
		return append(to, e), true
	}
	return append(to, e), true
}

// joinBlock carries on with the first text of a new part. Its thoughts are left
// out: the answer has begun.
func (s *spoken) joinBlock(e llm.BlockStart, to []llm.Event) []llm.Event {
	j := &s.next
	switch e.Block.(type) {
	case *llm.Thought:
		if j.skip == nil {
			j.skip = map[int]bool{}
		}
		j.skip[e.Index] = true
		return to
	case *llm.Text:
		if j.block < 0 {
			j.block, j.shift = e.Index, s.index-e.Index
			return to
		}
	}
	if j.block < 0 { // no more text: the old one ends here
		j.block, j.shift = -2, s.index+1-e.Index
		to = append(to, llm.BlockEnd{Index: s.index})
	}
	e.Index += j.shift
	return append(to, e)
}

// joinText takes out of the new text what the client has already: the whole
// beginning, where it is said again, or the white space that was not sent.
func (s *spoken) joinText(text string) (string, bool) {
	j := &s.next
	if !j.comparing {
		return text, true
	}
	j.held = append(j.held, text...)
	if len(j.held) < len(s.text) && bytes.HasPrefix(s.text, j.held) {
		return "", true // it may be a repetition
	}
	j.comparing = false
	return s.take()
}

// settle is the end of a text that is still compared.
func (s *spoken) settle(to []llm.Event) ([]llm.Event, bool) {
	if !s.next.comparing {
		return to, true
	}
	s.next.comparing = false
	text, ok := s.take()
	if text != "" {
		to = append(to, llm.Delta{Index: s.index, Text: text})
	}
	return to, ok
}

func (s *spoken) take() (string, bool) {
	held := s.next.held
	if bytes.HasPrefix(held, s.text) && len(s.text) >= leastRepeat {
		return string(held[len(s.text):]), true
	}
	if common(held, s.text) >= leastRepeat {
		return "", false // it begins anew in other words
	}
	blank := s.text[len(s.prefill()):]
	return string(bytes.TrimPrefix(held, blank)), true
}

// common is how many bytes two texts begin with alike.
func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func addUsage(a llm.Usage, b *llm.Usage) llm.Usage {
	if b == nil {
		return a
	}
	a.Input += b.Input
	a.CacheRead += b.CacheRead
	a.CacheWrite += b.CacheWrite
	a.Output += b.Output
	a.Reasoning += b.Reasoning
	return a
}
