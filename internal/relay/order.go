package relay

import (
	"github.com/isogloss-gateway/isogloss/internal/balance"
	"github.com/isogloss-gateway/isogloss/internal/health"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// order puts the candidates into the order in which they are asked: those that may
// be asked as the route's balance wants it, then those that are likely to fail. Who
// must not be asked at all is left out.
func (x *exchange) order() {
	var targets [8]*health.Target
	pool := targets[:0]
	for _, c := range x.line {
		pool = append(pool, c.target.Live)
	}
	var flags [8]bool
	usable := health.Usable(flags[:0], pool)

	line := make([]candidate, 0, len(x.line))
	var last []candidate
	var choices []balance.Choice
	for i, c := range x.line {
		if usable[i] {
			line = append(line, c)
			choices = append(choices, balance.Choice{ID: c.target.String(), Weight: c.target.Weight, Load: c.target.Live})
			continue
		}
		state := c.target.Live.State()
		x.skipped = append(x.skipped, trial{c.target.String(), state.Reason})
		if state.Reason == health.Ejected || state.Reason == health.CheckFailed {
			last = append(last, c)
		}
	}
	x.line = x.line[:0]
	x.session = x.newSession()
	for _, i := range balance.Order(x.route.Balance, choices, x.session) {
		x.line = append(x.line, line[i])
	}
	x.line = append(x.line, last...)
}

// newSession is what the request shares with others, where that decides who is
// asked.
func (x *exchange) newSession() balance.Session {
	s := balance.Session{History: x.route.History}
	if x.route.Balance == balance.CacheAware {
		s.Prefixes = balance.AppendPrefixes(nil, x.parts())
	}
	return s
}

// parts are the pieces of a request that prompt caches are made of.
func (x *exchange) parts() balance.Parts {
	p := balance.Parts{Tools: x.ask.raw("tools")}
	switch x.endpoint.dialect {
	case protocol.OpenAIResponses:
		p.System, p.Turns = x.ask.raw("instructions"), x.ask.raw("input")
	case protocol.Anthropic:
		p.System, p.Turns = x.ask.raw("system"), x.ask.raw("messages")
	case protocol.Gemini:
		p.System, p.Turns = x.ask.raw("systemInstruction"), x.ask.raw("contents")
	default:
		p.Turns = x.ask.raw("messages")
	}
	return p
}
