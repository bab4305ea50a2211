package translate

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/sse"
)

// fidelityHeader is the header with the losses of a response. A stream repeats it as a
// trailer, which has the losses that are known at the end.
const fidelityHeader = "Isogloss-Fidelity"

// reportRest reports what the client's dialect loses of a response, other than the blocks
// that reportBlock has reported.
func (a *attempt) reportRest(o *pair.Outline) {
	if losses := o.Losses(a.codec); len(losses) > 0 {
		a.losses = append(a.losses, losses...)
		a.fidelity = exchange.FidelityOf(a.losses)
	}
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
