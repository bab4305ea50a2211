// Package verbatim is the lane between a client and an upstream of the same dialect. It
// relays bytes without the neutral model: it edits the request only as the configuration
// requires, and relays the response unchanged while a tap reads usage, finish reason and
// errors.
package verbatim

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/lane/translate"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Lane relays requests and responses.
type Lane struct {
	// Translate delivers the response if only one side streams.
	Translate *translate.Lane
}

// attempt is a call encoded for one target.
type attempt struct {
	lane    *Lane
	call    *exchange.Call
	target  *exchange.Target
	request exchange.Request
	losses  []llm.Loss
	tap     protocol.Tap

	// reformed delivers the response if only one side streams; nil otherwise.
	reformed exchange.Prepared
}

// Prepare applies the configured edits to the client's body. A conversation may have begun with another vendor's model.
// Then it may contain seals that the gateway has wrapped, or lack signatures; this vendor would reject either. The
// translating lane takes them out and adds a stand-in.
func (l *Lane) Prepare(c *exchange.Call, t *exchange.Target, o exchange.Options) (exchange.Prepared, *llm.Error) {
	unsigned := c.Dialect.Unsigned
	if c.Operation == codec.Generate && (codec.HasForeign(c.Body.Text(), c.Dialect.Name) || unsigned != nil && unsigned(&c.Body.Index, t.Model)) {
		return l.repair(c, t, o)
	}
	a := &attempt{lane: l, call: c, target: t}
	edits, err := a.edits(o)
	if err != nil {
		return a, err
	}
	if a.request.Path, err = c.UpstreamPath(t, a.request.Stream); err != nil {
		return a, err
	}
	a.request.Header = c.DialectHeaders()
	a.request.Body = wire.Patch(c.Body.Text(), edits)
	if c.Params != nil && c.Generates() {
		if err := a.setParams(); err != nil {
			return a, err
		}
	}
	losses, err := c.Wrap(t, &a.request)
	a.losses = append(a.losses, losses...)
	a.tap = t.Dialect.Codec.NewTap(c.Body.Choices)
	return a, err
}

// repair prepares a call whose body the translating lane writes anew. The response is relayed unchanged.
func (l *Lane) repair(c *exchange.Call, t *exchange.Target, o exchange.Options) (exchange.Prepared, *llm.Error) {
	p, relays, err := l.Translate.Repair(c, t, o)
	if !relays {
		return p, err
	}
	return &attempt{lane: l, call: c, target: t, request: *p.Request(), losses: p.Losses(), tap: t.Dialect.Codec.NewTap(c.Body.Choices)}, nil
}

// edits returns the changes to the body: the names of models, the provider's quirks, the
// stream flag, the request for usage and the salt of the prefix cache.
func (a *attempt) edits(o exchange.Options) ([]wire.Edit, *llm.Error) {
	c, p := a.call, a.target.Provider
	edits, losses, err := c.EditExtensions(a.target)
	if err != nil {
		return nil, err
	}
	a.losses = losses
	models, err := c.EditModels(a.target)
	if err != nil {
		return nil, err
	}
	edits = append(edits, models...)
	if a.target.Model != c.Body.Model && c.Dialect.SetModel != nil {
		edits = append(edits, c.Dialect.SetModel(&c.Body.Index, a.target.Model))
	}
	edits = append(edits, exchange.Renames(&c.Body.Index, c.Dialect, p.Quirks)...)
	a.request.Stream = c.Body.Stream
	if !c.Body.Stream && c.Operation == codec.Generate && (o.Stream || p.UpstreamStream == provider.Always) {
		a.request.Stream = true
		if c.Dialect.SetStream != nil {
			edits = append(edits, c.Dialect.SetStream(&c.Body.Index))
		}
	}
	if o.IncludeUsage && a.request.Stream && !c.Body.Usage && c.Dialect.RequestUsage != nil {
		edits = append(edits, c.Dialect.RequestUsage(&c.Body.Index))
		a.request.AddedUsage = true
	}
	if salt := c.CacheSalt(a.target); salt != "" {
		edits = append(edits, c.Body.Set(c.Dialect.CacheSalt, wire.Quote(salt)))
	}
	return edits, nil
}

// setParams writes the parameters of the model's configuration into the body.
func (a *attempt) setParams() *llm.Error {
	c, t := a.call, a.target
	report, err := c.NewReport()
	if err != nil {
		return err
	}
	if c.Operation == codec.Complete {
		a.request.Body, err = c.Params.PatchCompletion(a.request.Body, report)
	} else {
		a.request.Body, err = c.Params.Patch(a.request.Body, t.Dialect, c.EncodeTarget(t), report)
	}
	if err != nil {
		return err
	}
	a.losses = append(a.losses, report.Losses...)
	if err := report.Err(); err != nil {
		return err
	}
	a.request.Body, err = exchange.ApplyQuirks(a.request.Body, t.Dialect, t.Provider.Quirks)
	return err
}

// Request returns the upstream request.
func (a *attempt) Request() *exchange.Request { return &a.request }

// Summary returns the id, model, finish reason and usage of the response.
func (a *attempt) Summary() protocol.Summary {
	if a.reformed != nil {
		s := a.reformed.Summary()
		s.Kept = a.tap.Summary().Kept
		return s
	}
	if a.tap == nil { // the request could not be encoded
		return protocol.Summary{}
	}
	return a.tap.Summary()
}

// Fidelity returns the value of the Isogloss-Fidelity header.
func (a *attempt) Fidelity() string {
	if a.reformed != nil {
		return a.reformed.Fidelity()
	}
	return exchange.FidelityOf(a.losses)
}

// Losses returns what Fidelity counts.
func (a *attempt) Losses() []llm.Loss {
	if a.reformed != nil {
		return a.reformed.Losses()
	}
	return a.losses
}

// EncodeStreamError returns the error event that ends a stream. In some dialects it
// depends on the events before it, which the tap has read.
func (a *attempt) EncodeStreamError(err *llm.Error) []byte {
	if encode := a.call.Dialect.EndStream; encode != nil && a.tap != nil {
		return encode(a.tap, err)
	}
	return a.call.Dialect.Codec.EncodeStreamError(err)
}
