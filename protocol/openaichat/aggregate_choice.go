package openaichat

import (
	"bytes"
	"encoding/base64"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// gathered is what has come for one choice.
type gathered struct {
	role             Role
	content          contents
	refusal          joined
	reasoningContent joined
	reasoning        joined
	thinking         joined
	details          wire.Opt[[]wire.Raw]
	calls            toolCalls
	function         call // the deprecated kind, of which there is one
	annotations      wire.Opt[[]Annotation]
	audio            *gatheredAudio
	logprobs         wire.Opt[Logprobs]
	logprobExtras    extras
	messageExtras    extras
	choiceExtras     extras

	reason     FinishReason // the last one that is not empty
	toolReason FinishReason // the last one that spoke of a call
}

// add returns by how many bytes the choice has grown. length is the chunk's.
func (g *gathered) add(c *ChunkChoice, length int) int {
	if r := c.FinishReason.Value(); r != "" {
		g.reason = r
		if r == FinishToolCalls || r == FinishFunctionCall {
			g.toolReason = r
		}
	}
	grown := g.choiceExtras.merge(c.Extra, "delta")
	if lp, ok := c.Logprobs.Get(); ok {
		g.addLogprobs(lp)
		grown += length
	}
	if d := c.Delta.Ptr(); d != nil {
		grown += g.addDelta(d, length)
	}
	return grown
}

func (g *gathered) addDelta(d *Delta, length int) int {
	if g.role == "" {
		g.role = d.Role.Value()
	}
	grown := g.content.add(d.Content, length) +
		g.refusal.add(d.Refusal) +
		g.reasoningContent.add(d.ReasoningContent) +
		g.reasoning.add(d.Reasoning) +
		g.thinking.add(d.Thinking) +
		g.messageExtras.merge(d.Extra, "")
	if len(d.ReasoningDetails.Value())+len(d.Annotations.Value()) > 0 {
		grown += length
	}
	g.details = concat(g.details, d.ReasoningDetails)
	g.annotations = concat(g.annotations, d.Annotations)
	for i := range d.ToolCalls.Value() {
		_, n := g.calls.add(&d.ToolCalls.Value()[i])
		grown += n
	}
	if f := d.FunctionCall.Ptr(); f != nil {
		grown += g.function.addFunction(f)
	}
	if au := d.Audio.Ptr(); au != nil {
		if g.audio == nil {
			g.audio = &gatheredAudio{}
		}
		grown += g.audio.add(au)
	}
	return grown
}

func (g *gathered) addLogprobs(lp Logprobs) {
	old := g.logprobs.Value()
	g.logprobs = wire.Some(Logprobs{
		Content: concat(old.Content, lp.Content),
		Refusal: concat(old.Refusal, lp.Refusal),
	})
	g.logprobExtras.merge(lp.Extra, "")
}

// choice returns the whole choice. seed is what ids are minted from.
func (g *gathered) choice(index int64, seed string) Choice {
	logprobs := wire.Null[Logprobs]()
	if lp, ok := g.logprobs.Get(); ok {
		lp.Extra = g.logprobExtras.extra()
		logprobs = wire.Some(lp)
	}
	return Choice{
		Index:        wire.Some(wire.Int(index)),
		Message:      wire.Some(g.message(index, seed)),
		Logprobs:     logprobs,
		FinishReason: wire.Some(g.finishReason()),
		Extra:        g.choiceExtras.extra(),
	}
}

func (g *gathered) message(index int64, seed string) Message {
	m := Message{
		Role:             wire.Some(RoleAssistant),
		Content:          g.content.value(),
		Refusal:          wire.Null[wire.Text](),
		ReasoningContent: g.reasoningContent.value(),
		Reasoning:        g.reasoning.value(),
		Thinking:         g.thinking.value(),
		ReasoningDetails: g.details,
		Annotations:      g.annotations,
		Extra:            g.messageExtras.extra(),
	}
	if g.role != "" {
		m.Role = wire.Some(g.role)
	}
	if len(g.refusal.body) > 0 {
		m.Refusal = g.refusal.value()
	}
	cut := g.reason == FinishLength || g.reason == FinishContentFilter
	if calls := g.calls.whole(cut, index, seed); len(calls) > 0 {
		m.ToolCalls = wire.Some(calls)
	}
	if !g.function.isStub() {
		m.FunctionCall = wire.Some(g.function.functionCall(cut))
	}
	if g.audio != nil {
		m.Audio = wire.Some(g.audio.value())
	}
	// An empty text beside something else is only how the stream began, K31.
	other := m.ToolCalls.IsSet() || m.FunctionCall.IsSet() || m.Refusal.IsSet() || m.Audio.IsSet()
	if m.Content.IsAbsent() || other && g.content.isEmpty() {
		m.Content = wire.Null[Content]()
	}
	return m
}

// finishReason keeps what the upstream said, unless what it said cannot be: two
// reasons (CST-18), a call that never came (CST-16), or none at all (CST-21).
func (g *gathered) finishReason() FinishReason {
	called := g.calls.any() || !g.function.isStub()
	switch {
	case g.reason == "" && g.calls.any() && g.calls.complete():
		return FinishToolCalls
	case g.reason == "" && !g.function.isStub() && g.function.isComplete():
		return FinishFunctionCall
	case g.reason == "":
		return FinishStop
	case g.reason == FinishStop && called && g.toolReason != "":
		return g.toolReason
	case g.reason == g.toolReason && !called:
		return FinishStop
	}
	return g.reason
}

// joined is a text that comes in fragments. Literals are joined, not characters,
// because a fragment may end in half a surrogate pair (JSN-07).
type joined struct {
	body []byte
	came wire.Opt[struct{}] // null where only null came, a value where a text did
}

func (j *joined) add(t wire.Opt[wire.Text]) int {
	switch {
	case t.IsSet():
		j.came = wire.Some(struct{}{})
	case t.IsNull() && j.came.IsAbsent():
		j.came = wire.Null[struct{}]()
	}
	j.body = t.Value().AppendBody(j.body)
	return t.Value().Len()
}

func (j *joined) text() wire.Text { return wire.JoinedText(j.body).Whole() }

func (j *joined) value() wire.Opt[wire.Text] {
	switch {
	case j.came.IsSet():
		return wire.Some(j.text())
	case j.came.IsNull():
		return wire.Null[wire.Text]()
	}
	return wire.Opt[wire.Text]{}
}

// contents is a content that comes as text, as parts (Mistral does so while a
// model thinks), or as both in turn.
type contents struct {
	segments []segment
	came     bool
}

// segment is a run of text, or one part.
type segment struct {
	text joined
	part wire.Opt[Part]
}

func (c *contents) add(delta wire.Opt[Content], length int) int {
	d, ok := delta.Get()
	if !ok {
		return 0
	}
	c.came = true
	if t, ok := d.Text.Get(); ok {
		if t.IsEmpty() {
			return 0
		}
		if n := len(c.segments); n == 0 || c.segments[n-1].part.IsSet() {
			c.segments = append(c.segments, segment{})
		}
		return c.segments[len(c.segments)-1].text.add(d.Text)
	}
	for _, p := range d.Parts.Value() {
		c.segments = append(c.segments, segment{part: wire.Some(p)})
	}
	return length
}

func (c *contents) isEmpty() bool { return len(c.segments) == 0 }

func (c *contents) value() wire.Opt[Content] {
	switch {
	case !c.came:
		return wire.Opt[Content]{}
	case len(c.segments) == 0:
		return wire.Some(NewContent(""))
	case len(c.segments) == 1 && !c.segments[0].part.IsSet():
		return wire.Some(Content{Text: wire.Some(c.segments[0].text.text())})
	}
	parts := make([]Part, 0, len(c.segments))
	for _, s := range c.segments {
		p, ok := s.part.Get()
		if !ok {
			p = Part{Type: wire.Some(PartText), Text: wire.Some(s.text.text())}
		}
		parts = append(parts, p)
	}
	return wire.Some(Content{Parts: wire.Some(parts)})
}

// concat joins lists that come in pieces.
func concat[T any](old, next wire.Opt[[]T]) wire.Opt[[]T] {
	if old.IsSet() && next.IsSet() {
		return wire.Some(append(old.Value(), next.Value()...))
	}
	return later(old, next)
}

// gatheredAudio is a spoken answer that comes in pieces.
type gatheredAudio struct {
	id         string
	data       [][]byte
	transcript joined
	expires    wire.Opt[wire.Number]
	extras     extras
}

func (g *gatheredAudio) add(au *Audio) int {
	if g.id == "" {
		g.id = au.ID.Value()
	}
	g.expires = later(g.expires, au.ExpiresAt)
	grown := g.transcript.add(au.Transcript) + g.extras.merge(au.Extra, "")
	if d, ok := au.Data.Get(); ok {
		g.data = append(g.data, []byte(d.String()))
		grown += d.Len()
	}
	return grown
}

func (g *gatheredAudio) value() Audio {
	au := Audio{ExpiresAt: g.expires, Transcript: g.transcript.value(), Extra: g.extras.extra()}
	if g.id != "" {
		au.ID = wire.Some(g.id)
	}
	if g.data != nil {
		au.Data = wire.Some(wire.NewText(string(joinBase64(g.data))))
	}
	return au
}

// joinBase64 joins pieces that were each encoded on their own: one that was
// padded cannot simply be followed by another.
func joinBase64(pieces [][]byte) []byte {
	plain := bytes.Join(pieces, nil)
	if end := bytes.IndexByte(plain, '='); end < 0 || len(bytes.TrimRight(plain[end:], "=")) == 0 {
		return plain
	}
	var sound []byte
	for _, p := range pieces {
		var err error
		if sound, err = base64.StdEncoding.AppendDecode(sound, p); err != nil {
			return plain // not base64: nothing that could be set right
		}
	}
	return base64.StdEncoding.AppendEncode(nil, sound)
}
