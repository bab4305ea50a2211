package relay

import (
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
)

// plan chooses the upstream and edits the body for it.
func (r *Relay) plan(x *exchange) *llm.Error {
	match, ok := x.state.Routes.Find(x.ask.model)
	if !ok {
		return noSuchModel(x.ask.model)
	}
	target, ok := r.speaking(match.Targets)
	if !ok {
		return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_protocol", Param: "model",
			Message: "the model '" + printable(x.ask.model) + "' is served over " + string(match.Targets[0].Provider.Protocol) + ", which cannot be called in " + string(r.codec.Name()) + " yet"}
	}
	x.target = target
	x.seen.Target = target.String()
	x.seen.Route(match.Route.Name, target.Provider.Name)
	edits, err := x.edits()
	if err != nil {
		return err
	}
	x.body = patch(x.body, edits)
	x.tap = r.codec.NewTap(x.ask.n)
	return nil
}

// speaking is the first target whose provider speaks the client's dialect.
func (r *Relay) speaking(targets []route.Target) (route.Target, bool) {
	for _, t := range targets {
		if t.Provider.Protocol == r.codec.Name() {
			return t, true
		}
	}
	return route.Target{}, false
}

// edits lists what the configuration changes in the body.
func (x *exchange) edits() ([]edit, *llm.Error) {
	p := x.target.Provider
	edits, err := x.nvext()
	if err != nil {
		return nil, err
	}
	if x.target.Model != x.ask.model {
		edits = append(edits, x.ask.set("model", quote(x.target.Model)))
	}
	edits = append(edits, x.ask.applyQuirks(p.Quirks)...)
	stream := x.ask.stream
	if !stream && x.endpoint.collect && p.UpstreamStream == provider.Always {
		stream = true
		edits = append(edits, x.ask.set("stream", "true"))
	}
	x.seen.UpstreamStream = stream
	// A collected answer has its usage as the upstream's own whole answer has.
	if stream && !x.ask.usage && (p.IncludeUsage || !x.ask.stream) {
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
		x.fidelity = `dropped;path="/nvext";code="nvext.unsupported"`
		return []edit{e}, nil
	case provider.NvExtRefuse:
	}
	return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: "nvext",
		Message: "the provider '" + p.Name + "' does not take nvext; leave it out, or set 'nvext: forward' or 'nvext: drop' for the provider"}
}
