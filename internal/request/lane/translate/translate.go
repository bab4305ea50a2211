// Package translate is the lane between a client and an upstream of different dialects,
// or of different versions of one. It decodes the request into the neutral model and
// encodes it for the upstream, and does the reverse with the response.
package translate

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Lane translates requests and responses.
type Lane struct {
	Seals     *conversation.Seals
	Responses *conversation.Responses

	// Ping is the interval of the client dialect's pings on an idle stream that has begun; 0: none.
	Ping time.Duration

	// Memory takes bytes of memory for a translation, and returns the function that
	// releases them.
	Memory func(ctx context.Context, bytes int64) (release func(), err *llm.Error)
}

// minReserved is the size of the smallest text whose translation reserves memory.
const minReserved = 64 << 10

// reserve takes the memory that the translation of a text needs.
func (l *Lane) reserve(c *exchange.Call, text []byte) (release func(), err *llm.Error) {
	if len(text) < minReserved {
		return func() {}, nil
	}
	return l.Memory(c.Client.Context(), wire.Cost(text))
}

// attempt is a call translated for one target.
type attempt struct {
	lane    *Lane
	call    *exchange.Call
	target  *exchange.Target
	pair    pair.Pair
	codec   protocol.Translator // encodes and decodes the client's dialect
	request exchange.Request

	ask      *llm.Request // the neutral request; nil after a stream has released it
	undo     llm.Undo     // restores the tool names that the client sent
	losses   []llm.Loss
	fidelity string
	summary  protocol.Summary
	created  int64           // creation time, for dialects that require one, if the upstream sends none
	tap      protocol.Tap    // also reads the stream if both sides have the same dialect; else nil
	assemble codec.Assembler // completes a response that is collected from a stream of the same dialect; nil: nothing to do
	stream   *streamReader   // the current stream
	resumes  bool            // it continues the text of another attempt
	choices  int             // the choices that the upstream was asked for; less than 2: one

	// rewrite translates a response that is not generated text.
	rewrite func(body []byte) ([]byte, *llm.Error)
}

// newAttempt returns an attempt of a call to a target.
func (l *Lane) newAttempt(c *exchange.Call, t *exchange.Target) *attempt {
	p := pair.Pair{Client: c.Dialect, Upstream: t.Dialect, Model: t.Model}
	if c.Body != nil {
		p.ClientModel = c.Body.Model
	}
	return &attempt{lane: l, call: c, target: t, pair: p, codec: c.Dialect.Codec, fidelity: exchange.Exact}
}

// Prepare translates the request. If it fails, the result's fidelity lists the losses
// that caused the failure.
func (l *Lane) Prepare(c *exchange.Call, t *exchange.Target, o exchange.Options) (exchange.Prepared, *llm.Error) {
	a := l.newAttempt(c, t)
	report, err := c.NewReport()
	if err != nil {
		return a, err
	}
	release, err := l.reserve(c, c.Body.Text())
	if err != nil {
		return a, err
	}
	defer release()
	switch {
	case Operation(c, t.Dialect):
		err = a.translateOperation(report)
	default:
		if c.Complete != nil {
			a.codec = c.Complete.Codec
		}
		err = a.translate(report, o)
	}
	if err != nil && len(report.Losses) > 0 {
		a.losses, a.fidelity = report.Losses, exchange.Refused(report.Losses)
		err = a.nameField(report, err)
	}
	return a, err
}

// Repair prepares a call that the upstream would reject as it is, although it speaks the client's dialect.
// It reports whether the upstream's response can be relayed: nothing of it has to be restored or stored.
func (l *Lane) Repair(c *exchange.Call, t *exchange.Target, o exchange.Options) (p exchange.Prepared, relays bool, err *llm.Error) {
	p, err = l.Prepare(c, t, o)
	a, ok := p.(*attempt)
	return p, ok && err == nil && len(a.undo.Names) == 0 && c.Dialect.RequestUsage == nil && c.Dialect.Stored == nil, err
}

// nameField makes the error of a refused loss name the client's own field.
func (a *attempt) nameField(report *llm.Report, err *llm.Error) *llm.Error {
	refusedBy := report.Err()
	if refusedBy == nil || refusedBy.Message != err.Message || a.call.Complete != nil || a.call.PreviousID != "" { // the client has not sent the turns of an earlier response
		return err
	}
	ask, fault := a.codec.DecodeRequest(a.call.Incoming())
	if fault != nil {
		return err
	}
	i := slices.IndexFunc(report.Losses, func(l llm.Loss) bool { return l.Verdict == llm.Rejected || report.Mode == llm.Strict })
	named := llm.Report{Mode: report.Mode, Losses: slices.Clone(report.Losses[i : i+1])}
	a.call.Dialect.NameFields(a.codec, a.call.Incoming(), ask, named.Losses)
	return named.Err()
}

// translate translates a conversation.
func (a *attempt) translate(report *llm.Report, o exchange.Options) *llm.Error {
	p := a.target.Provider
	if err := a.call.CheckExtensions(a.target, report.Mode); err != nil {
		return err
	}
	ask, err := a.decodeRequest()
	if err != nil {
		return err
	}
	a.call.Params.Apply(ask, report)
	send := *ask
	send.Stream = ask.Stream || o.Stream || p.UpstreamStream == provider.Always
	send.Turns = a.pair.Turns(ask.Turns, func(origin string, turns []llm.Turn) []llm.Turn {
		return a.lane.Seals.Restore(a.caller(), origin, turns)
	})
	send.IncludeUsage = true // for billing; the client gets usage only if it requested it
	pair.ReportSampling(a.call.Dialect, a.call.Version, ask, report)
	if a.call.Complete != nil {
		a.call.Complete.Report(report)
	}
	if note := a.call.Dialect.Report; note != nil {
		note(report)
	}
	out, err := a.encodeRequest(&send, report)
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil { // also for what the configuration overrides
		return err
	}
	if a.call.PreviousID != "" {
		ask.State.PreviousID = a.call.PreviousID // the response repeats it
	}
	a.ask, a.undo, a.choices = ask, llm.Undo{Names: out.Names}, pair.Choices(&send, report)
	a.request.Stream = send.Stream
	return a.setRequest(out, report.Losses)
}

// decodeRequest decodes the client's request. It rejects a request that refers to state
// that only the client's own vendor has (RSP-17, RSP-18).
func (a *attempt) decodeRequest() (*llm.Request, *llm.Error) {
	in, err := a.call.IncomingFor(a.target)
	if err != nil {
		return nil, err
	}
	ask, err := a.codec.DecodeRequest(in)
	if err != nil {
		return nil, err
	}
	if stored := a.call.Dialect.Stored; stored != nil && a.call.Dialect != a.target.Dialect {
		return ask, stored.CheckExpanded(ask)
	}
	return ask, nil
}

// encodeRequest encodes a neutral request for the target.
func (a *attempt) encodeRequest(ask *llm.Request, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	out, err := a.target.Dialect.Codec.EncodeRequest(ask, a.call.EncodeTarget(a.target), report)
	if err != nil {
		return out, err
	}
	if out.Body, err = exchange.ApplyQuirks(out.Body, a.target.Dialect, a.target.Provider.Quirks); err != nil {
		return out, err
	}
	if out.Body, err = a.call.Params.SetBody(out.Body, report); err != nil {
		return out, err
	}
	if salt := a.call.CacheSalt(a.target); salt != "" {
		out.Body, err = exchange.SetMembers(out.Body, []llm.Member{{Name: a.target.Dialect.CacheSalt, Value: llm.Raw(wire.Quote(salt))}})
	}
	return out, err
}

// setRequest sets the upstream request, in the envelope of the target's provider. It drops
// headers that only the client's own vendor defines.
func (a *attempt) setRequest(out protocol.Outgoing, losses []llm.Loss) *llm.Error {
	a.created = time.Now().Unix()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	for _, rule := range a.call.Dialect.Headers.Request {
		switch sent := a.call.Client.Header[rule.Name]; {
		case len(sent) == 0 || rule.Loss == "":
		case a.target.Dialect == a.call.Dialect:
			out.Header[rule.Name] = sent
		default:
			losses = append(losses, llm.Loss{Path: strings.ToLower(rule.Name), Verdict: llm.Dropped, Code: rule.Loss, Note: "the header means nothing to the upstream"})
		}
	}
	a.request.Path, a.request.Header, a.request.Body = out.Path, out.Header, out.Body
	more, err := a.call.Wrap(a.target, &a.request)
	losses = append(losses, more...)
	a.losses, a.fidelity = losses, exchange.FidelityOf(losses)
	return err
}

// caller returns the owner of what the conversation store keeps of the call.
func (a *attempt) caller() conversation.Caller {
	return conversation.Caller{ID: a.call.CallerID, Tenant: a.call.Tenant}
}

// Request returns the upstream request.
func (a *attempt) Request() *exchange.Request { return &a.request }

// Summary returns the id, model, finish reason and usage of the response.
func (a *attempt) Summary() protocol.Summary { return a.summary }

// Fidelity returns the value of the Isogloss-Fidelity header.
func (a *attempt) Fidelity() string { return a.fidelity }

// Losses returns what Fidelity counts.
func (a *attempt) Losses() []llm.Loss { return a.losses }

// EncodeStreamError returns the error event that ends a stream.
func (a *attempt) EncodeStreamError(err *llm.Error) []byte { return a.codec.EncodeStreamError(err) }

// clientError returns an error as the client may see it. An upstream's message about the
// gateway's credential is only shown to clients of the same dialect.
func (a *attempt) clientError(err *llm.Error) *llm.Error {
	if err != nil && err.Kind == llm.UpstreamAuth && a.tap == nil {
		return exchange.RejectedCredential(a.target.Provider)
	}
	return exchange.RedactError(err, a.target.Provider)
}

// SetStreamHeaders sets the lane's own headers of a stream.
func (a *attempt) SetStreamHeaders(h http.Header) {
	h["Content-Type"] = []string{"text/event-stream"}
	if a.call.Array {
		h["Content-Type"] = []string{"application/json"}
	}
	h["Trailer"] = []string{fidelityHeader}
	if a.call.Continues() {
		h["Trailer"] = []string{fidelityHeader, continuedTrailer}
	}
}

func setJSON(h http.Header) { h["Content-Type"] = []string{"application/json"} }
