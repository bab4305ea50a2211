package exchange

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// innerModel is a model that a request names, at one provider.
type innerModel struct {
	provider *provider.Provider
	name     string
}

// ResolveModels finds what the providers of the call's targets call its inner models. Each
// must be the call's own model, or a model that sees allows and a route sends to the same
// provider. It may have the name of the route or, as clients of OpenRouter write it, the name
// of the provider.
func (c *Call) ResolveModels(routes *route.Table, targets []route.Target, sees func(model string) bool) *llm.Error {
	for i := range c.Body.Inner {
		m, known := &c.Body.Inner[i], false
		if m.Name == codec.AnyModel {
			known = sees(codec.AnyModel)
		}
		for j := range targets {
			t := &targets[j]
			if m.Name == c.Body.Model || m.Name == t.Model {
				known = true
			} else if name, ok := resolve(routes, t.Provider, m.Name, sees); ok && !m.Same {
				if c.inner == nil {
					c.inner = map[innerModel]string{}
				}
				c.inner[innerModel{t.Provider, m.Name}], known = name, true
			}
		}
		if !known {
			return codec.WrongModel(m.Param)
		}
	}
	return nil
}

func resolve(routes *route.Table, p *provider.Provider, name string, sees func(string) bool) (model string, ok bool) {
	if route.HasDotSegment(name) {
		return "", false
	}
	for _, name := range [...]string{name, p.Name + "/" + name} {
		match, found := routes.Find(name)
		if !found || !sees(name) {
			continue
		}
		for i := range match.Targets {
			if t := &match.Targets[i]; t.Provider == p {
				return t.Model, true
			}
		}
	}
	return "", false
}

// EditModels returns the edits that write a target's names of the inner models. It fails
// if the target's provider does not serve one of them.
func (c *Call) EditModels(t *Target) ([]wire.Edit, *llm.Error) {
	var edits []wire.Edit
	for i := range c.Body.Inner {
		m := &c.Body.Inner[i]
		name, known := c.inner[innerModel{t.Provider, m.Name}]
		switch {
		case m.Name == c.Body.Model:
			name = t.Model
		case m.Name == t.Model, m.Name == codec.AnyModel:
			continue
		case !known:
			return nil, codec.WrongModel(m.Param)
		}
		if name != m.Name {
			edits = append(edits, wire.Edit{Start: m.Start, End: m.End, Text: wire.Quote(m.Prefix + name)})
		}
	}
	return edits, nil
}

// IncomingFor returns the request as codecs read it, with a target's names of its models.
func (c *Call) IncomingFor(t *Target) (protocol.Incoming, *llm.Error) {
	in := c.Incoming()
	if c.Dialect != t.Dialect {
		return in, nil
	}
	edits, err := c.EditModels(t)
	in.Body = wire.Patch(in.Body, edits)
	return in, err
}

// AppendBilled appends the models of a target that the call may be charged for: the
// target's own and the inner ones.
func (c *Call) AppendBilled(list []billing.Target, t *route.Target) []billing.Target {
	list = append(list, Billed(t))
	for m, model := range c.inner {
		if m.provider == t.Provider {
			inner := *t
			inner.Model = model
			list = append(list, Billed(&inner))
		}
	}
	return list
}

// BilledAs returns the model that the response names, if it is one of the inner models.
// Otherwise it returns the target's own. A response may name a version of the model.
func (c *Call) BilledAs(t *route.Target, response string) billing.Target {
	best := *t
	for m, model := range c.inner {
		if m.provider == t.Provider && strings.HasPrefix(response, model) && (len(model) > len(best.Model) || !strings.HasPrefix(response, best.Model)) {
			best.Model = model
		}
	}
	return Billed(&best)
}

// Billed returns a target as billing needs it.
func Billed(t *route.Target) billing.Target {
	return billing.Target{Name: t.String(), Preset: t.Provider.Preset, PriceName: t.Priced(), Cloud: string(t.Provider.CloudName()), Region: t.Provider.Location}
}
