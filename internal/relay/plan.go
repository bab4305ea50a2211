package relay

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
)

// plan finds who can be asked, and in which order.
func (r *Relay) plan(x *exchange) *llm.Error {
	match, ok := x.state.Routes.Find(x.ask.model)
	if !ok {
		return noSuchModel(x.ask.model)
	}
	x.route = match.Route
	if len(match.Targets) == 0 {
		return &llm.Error{Kind: llm.Overloaded, Code: "no_worker", Param: "model", RetryAfter: time.Second,
			Message: "no worker serves the model '" + printable(x.ask.model) + "' at present; try again when one has registered"}
	}
	x.line = x.candidates(match.Targets)
	if len(x.line) == 0 {
		return x.endpoint.unserved(x.ask.model, match.Targets[0].Provider.Protocol)
	}
	if len(x.line) > 1 {
		r.order(x)
	}
	return nil
}

// candidates are the targets that can be asked: all for what every dialect can
// say, else those that speak the client's dialect or one that has the like. What
// only resembles a chat is asked as one where nobody has it.
func (x *exchange) candidates(targets []route.Target) []candidate {
	line := x.nearest[:0]
	for _, t := range targets {
		if x.endpoint.servedBy(t.Provider) {
			line = append(line, candidate{target: t})
		}
	}
	if len(line) > 0 || x.endpoint.form == nil {
		return line
	}
	for _, t := range targets {
		line = append(line, candidate{target: t})
	}
	return line
}

// prepare writes the request for a target: the client's own bytes with the
// configured edits, or a translation. Each attempt begins with what the client
// sent.
func (r *Relay) prepare(x *exchange, t *route.Target) *llm.Error {
	x.target, x.speaks, x.dialect = *t, r.codecs[t.Provider.Protocol], r.codecs[x.endpoint.dialect]
	if err := x.checkVersion(len(x.route.Targets)); err != nil {
		return err
	}
	if !x.endpoint.verbatim(t.Provider) || x.continues() {
		return r.convert(x)
	}
	edits, err := x.edits()
	if err != nil {
		return err
	}
	x.path = x.endpoint.upstreamPath(*t, x.streams)
	x.body = patch(x.ask.body, edits)
	x.tap = x.speaks.NewTap(x.ask.n)
	return nil
}

// edits lists what the configuration changes in the body.
func (x *exchange) edits() ([]edit, *llm.Error) {
	p := x.target.Provider
	var edits []edit
	if x.endpoint.dialect == protocol.OpenAIChat {
		var err *llm.Error
		if edits, err = x.nvext(); err != nil {
			return nil, err
		}
	}
	if x.target.Model != x.ask.model && x.endpoint.model == "" {
		edits = append(edits, x.ask.set("model", quote(x.target.Model)))
	}
	edits = append(edits, x.ask.applyQuirks(p.Quirks)...)
	stream := x.ask.stream
	if !stream && x.endpoint.generates && p.UpstreamStream == provider.Always {
		stream = true
		if x.endpoint.dialect != protocol.Gemini { // which has it in the path
			edits = append(edits, x.ask.set("stream", "true"))
		}
	}
	x.streams = stream
	// A collected answer has its usage as the upstream's own whole answer has.
	if stream && x.endpoint.dialect == protocol.OpenAIChat && !x.ask.usage && (p.IncludeUsage || x.account != nil || !x.ask.stream) {
		edits = append(edits, x.ask.askUsage())
		x.hide = true
	}
	return edits, nil
}

// nvext checks NVIDIA's extension and treats it as the provider wants it.
func (x *exchange) nvext() ([]edit, *llm.Error) {
	raw := x.ask.raw("nvext")
	if raw == nil {
		return nil, nil
	}
	if err := openaichat.CheckNvExt(raw); err != nil {
		return nil, err
	}
	p := x.target.Provider
	switch p.NvExt {
	case provider.NvExtForward:
		return x.ask.applyNvExtQuirks(p.Quirks), nil
	case provider.NvExtDrop:
		e, _ := x.ask.remove("nvext")
		x.fidelity = fidelityOf([]llm.Loss{{Path: "nvext", Verdict: llm.Dropped, Code: "nvext.unsupported"}})
		return []edit{e}, nil
	case provider.NvExtRefuse:
	}
	return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: "nvext",
		Message: "the provider '" + p.Name + "' does not take nvext; leave it out, or set 'nvext: forward' or 'nvext: drop' for the provider"}
}
