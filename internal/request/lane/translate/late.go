package translate

import (
	"net/http"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// fidelityHeader is the header with the losses of a response. A stream repeats it as a
// trailer, which has the losses that are known at the end.
const fidelityHeader = "Isogloss-Fidelity"

// maxOutline limits the size of an outline.
const maxOutline = 64 << 10

// maxDetails limits the citations and log probabilities of an outline. Later ones lose what the first ones lose.
const maxDetails = 8

// outline is a response without its text. It has what a client's dialect may lose, so that
// a stream reports the same losses as a non-streaming response.
type outline struct {
	client   protocol.Name
	response llm.Collector
	last     block          // of the last delta
	texts    map[block]bool // the blocks that have text
	details  int            // citations and log probabilities so far
	full     bool           // it is too large, and reports nothing
	counted  bool           // it has token counts
	suspect  bool           // it has something that not every dialect can carry
}

// block is the place of a block in a response.
type block struct{ choice, index int }

// newOutline returns the outline of a response for a client. A text completion can carry
// little, so that its responses are always looked at.
func newOutline(client protocol.Name, completion bool) outline {
	return outline{client: client, response: llm.Collector{Limit: maxOutline}, last: block{index: -1}, suspect: completion}
}

// add adds an event. Of the deltas of a block it needs the first.
func (o *outline) add(e llm.Event) {
	switch d := e.(type) {
	case llm.Delta:
		b := block{d.Choice, d.Index}
		if b == o.last || d.Text == "" || o.full {
			return
		}
		if o.last = b; o.texts[b] {
			return
		}
		if o.texts == nil {
			o.texts = map[block]bool{}
		}
		o.texts[b] = true
		d.Text = "{}" // also valid arguments
		e = d
	case llm.Cite, llm.Logprobs:
		if o.details++; o.details > maxDetails {
			return
		}
	case llm.BlockStart:
		switch d.Block.(type) {
		case *llm.Text, *llm.Refusal, *llm.Thought, *llm.ToolCall:
		default: // reportBlock has reported it
			d.Block = &llm.Text{}
			e = d
		}
	case llm.SealDelta, llm.Ping:
		return
	}
	o.suspect = o.suspect || o.mayLose(e)
	if !o.full && o.response.Add(e) != nil {
		o.full, o.response = true, llm.Collector{}
	}
}

// mayLose reports whether an event has something that not every dialect can carry.
func (o *outline) mayLose(e llm.Event) bool {
	switch e := e.(type) {
	case llm.Start:
		o.counted = e.Usage != nil
		return e.Tier != "" || o.drops(e.Ext)
	case llm.BlockStart:
		if e.Choice > 0 || o.drops(e.Block.Common().Ext) {
			return true
		}
		switch b := e.Block.(type) {
		case *llm.Text:
			return b.Phase != ""
		case *llm.ToolCall:
			return b.Kind != llm.FunctionTool
		}
		_, thought := e.Block.(*llm.Thought)
		return !thought
	case llm.Delta:
		return e.Form == llm.SummaryReasoning
	case llm.Cite, llm.Logprobs:
		return true
	case llm.Members:
		return o.drops(e.Ext)
	case llm.UsageUpdate:
		o.counted = true
		return e.Usage.CacheWrite > 0
	case llm.ChoiceEnd:
		return !slices.Contains([]llm.StopKind{llm.EndTurn, llm.MaxTokens, llm.ToolUse}, e.Stop.Kind) || e.Stop.Category+e.Stop.Explanation != "" || o.drops(e.Ext)
	}
	return false
}

// drops reports whether the client's dialect drops some of the members.
func (o *outline) drops(e llm.Ext) bool { return len(codec.Lost(e, o.client)) > 0 }

// reportRest reports what the client's dialect loses of a response, other than the blocks
// that reportBlock has reported.
func (a *attempt) reportRest(o *outline) {
	if o.full || !o.suspect && o.counted {
		return
	}
	resp, err := o.response.Response()
	if err != nil {
		return
	}
	var report llm.Report
	a.codec.EncodeResponse(resp, &llm.Request{}, &report)
	a.losses = append(a.losses, report.Losses[:min(len(report.Losses), maxLosses)]...)
	a.fidelity = exchange.FidelityOf(a.losses)
}

// SetStreamHeaders sets the headers of the stream and remembers what they say.
func (w *streamWriter) SetStreamHeaders(h http.Header) {
	w.attempt.SetStreamHeaders(h)
	w.declared, w.told = true, w.attempt.fidelity
}

// tellFidelity tells the client about losses that its headers do not have: in a trailer
// and, before the last event, in a comment if its dialect allows one.
func (w *streamWriter) tellFidelity() {
	fidelity, d := w.attempt.fidelity, w.delivery
	if !d.Writer.Started() || fidelity == w.told || fidelity == exchange.Exact {
		return // the headers say it, or will
	}
	name := fidelityHeader
	if !w.declared { // a keep-alive has sent the headers
		name = http.TrailerPrefix + name
	}
	d.Writer.SetHeader(name, fidelity)
	if !d.Call.Dialect.NoComments {
		*w.buffer() = sse.AppendComment(*w.buffer(), "isogloss-fidelity "+fidelity)
	}
}

// buffer returns the buffer of encoded events.
func (w *streamWriter) buffer() *[]byte {
	if w.buf == nil {
		w.buf = buffers.Get().(*[]byte)
	}
	return w.buf
}
