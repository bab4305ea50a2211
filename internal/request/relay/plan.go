package relay

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/lane/translate"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// plan is the route of a request and its candidate targets.
type plan struct {
	route      *route.Route
	targets    []route.Target  // of the route for the request's model
	candidates []candidate     // in the order in which they are tried
	skipped    []failedAttempt // targets that are not tried, with the reason
	session    balance.Session // prompt prefixes and pinned target
	few        [2]candidate    // backing array of candidates, if two suffice
	first      *health.Target  // of the first candidate before they are ordered
}

// candidate is a target that can serve the request.
type candidate struct {
	exchange.Target
	tried int
	done  bool // it must not be tried again
}

// match finds the request's route.
func (q *request) match() *llm.Error {
	model := q.Call.Body.Model
	match, ok := q.state.Routes.Find(model)
	if !ok {
		return q.state.Models.NotFound(model, q.caller.Sees)
	}
	q.route, q.targets = match.Route, match.Targets
	q.Call.Continue, q.Call.Params = match.Route.Continue, match.Route.Params
	return nil
}

// choose selects the targets that can serve the request, and their order.
func (q *request) choose() *llm.Error {
	model, targets := q.Call.Body.Model, q.targets
	if len(targets) == 0 {
		return &llm.Error{Kind: llm.Overloaded, Code: "no_worker", Param: "model", RetryAfter: time.Second,
			Message: "no worker serves the model '" + exchange.Printable(model) + "' at present; try again when one has registered"}
	}
	q.candidates = q.findCandidates(targets)
	if len(q.candidates) == 0 {
		return exchange.Unserved(q.Call, targets[0].Provider.Protocol)
	}
	q.first = q.candidates[0].Live
	if len(q.candidates) > 1 {
		q.order()
	}
	if err := q.Call.ResolveModels(q.state.Routes, targets, q.caller.Sees); err != nil {
		return err
	}
	return q.Call.CheckOwners(q.ctx, q.relay.Owners, targets)
}

// findCandidates returns the targets that can serve the call. If no target supports text
// completions, a text completion becomes a chat request.
func (q *request) findCandidates(targets []route.Target) []candidate {
	list := q.few[:0]
	for _, t := range targets {
		if d := q.relay.dialects.ByName[t.Provider.Protocol]; servable(q.Call, d) {
			list = append(list, candidate{Target: exchange.Target{Target: t, Dialect: d}})
		}
	}
	if len(list) > 0 || q.Call.Complete == nil {
		return list
	}
	for _, t := range targets {
		list = append(list, candidate{Target: exchange.Target{Target: t, Dialect: q.relay.dialects.ByName[t.Provider.Protocol]}})
	}
	return list
}

// servable reports whether an upstream of a dialect can serve the call, verbatim or by
// translation.
func servable(c *exchange.Call, upstream *codec.Dialect) bool {
	return c.Operation == codec.Generate || upstream == c.Dialect || translate.Operation(c, upstream)
}

// order sorts the candidates for the attempts, and removes those that must not be tried.
func (q *request) order() {
	var buf [8]*route.Target
	targets := buf[:0]
	for i := range q.candidates {
		targets = append(targets, &q.candidates[i].Target.Target)
	}
	q.session = q.newSession()
	order, skipped := fleet.Order(q.route.Balance, targets, q.session)
	list := make([]candidate, len(order))
	for i, at := range order {
		list[i] = q.candidates[at]
	}
	q.candidates = list
	for _, s := range skipped {
		q.skipped = append(q.skipped, failedAttempt{target: s.Target, reason: s.Reason})
	}
}

// newSession returns the properties of the conversation that affect the choice of a
// target: its prompt prefix, and the credential that sealed its reasoning.
func (q *request) newSession() balance.Session {
	s := balance.Session{History: q.route.History}
	if q.route.Balance == balance.CacheAware || q.route.Credentials > 1 {
		s.Prefixes = balance.AppendPrefixes(nil, promptParts(q.Call))
	}
	if len(s.Prefixes) > 0 && q.route.Credentials > 1 && q.relay.dialects.HasSeals(q.Call.Body.Text()) {
		s.Pin = q.relay.pins.Target(q.pinnedSession(s))
	}
	return s
}

// pinnedSession returns the key under which the conversation's target is pinned.
func (q *request) pinnedSession(s balance.Session) conversation.Session {
	return conversation.Session{Caller: conversation.Caller{ID: q.caller.ID, Tenant: q.caller.Tenant}, Route: q.route.Name, Prefix: s.Prefixes[len(s.Prefixes)-1]}
}

// noteSession records which target served a conversation and how much of the prompt was
// in its cache.
func (q *request) noteSession() {
	if len(q.session.Prefixes) == 0 {
		return
	}
	target := q.Target.String()
	if q.route.Credentials > 1 {
		q.relay.pins.Set(q.pinnedSession(q.session), target)
	}
	if h := q.route.History; h != nil {
		u := q.attempt.summary().Usage
		if u == nil {
			u = &llm.Usage{}
		}
		h.Seen(target, q.session, int(u.TotalInput()), int(u.CacheRead))
	}
}

// promptParts returns the parts of a request that make up its prompt cache prefix.
func promptParts(c *exchange.Call) balance.Parts {
	member := func(name string) []byte {
		if name == "" {
			return nil
		}
		return c.Body.Raw(name)
	}
	p := c.Dialect.Prompt
	return balance.Parts{System: member(p.System), Tools: member(p.Tools), Turns: member(p.Turns)}
}
