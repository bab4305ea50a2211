package relay

import (
	"bytes"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/balance"
	"github.com/isogloss-gateway/isogloss/internal/health"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// order puts the candidates into the order in which they are asked: those that may
// be asked as the route's balance wants it, then those that are likely to fail. Who
// must not be asked at all is left out.
func (r *Relay) order(x *exchange) {
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
		x.skipped = append(x.skipped, trial{target: c.target.String(), why: state.Reason})
		if state.Reason == health.Ejected || state.Reason == health.CheckFailed {
			last = append(last, c)
		}
	}
	x.line = x.line[:0]
	x.session = r.newSession(x)
	for _, i := range balance.Order(x.route.Balance, choices, x.session) {
		x.line = append(x.line, line[i])
	}
	x.line = append(x.line, last...)
}

// newSession is what the request shares with others, where that decides who is
// asked: what prompt caches know, and whose credential has sealed its reasoning.
func (r *Relay) newSession(x *exchange) balance.Session {
	s := balance.Session{History: x.route.History}
	if x.route.Balance == balance.CacheAware || x.route.Credentials > 1 {
		s.Prefixes = balance.AppendPrefixes(nil, x.parts())
	}
	if len(s.Prefixes) > 0 && x.route.Credentials > 1 && sealed(x.ask.body) {
		s.Pin = r.live.pins.find(x.talkKey(s))
	}
	return s
}

// talkKey is what a conversation is known by.
func (x *exchange) talkKey(s balance.Session) pinKey {
	return pinKey{x.caller.ID, x.route.Name, s.Prefixes[len(s.Prefixes)-1]}
}

// sealMarks are the members that hold sealed reasoning in one dialect or another.
// Inside a JSON string a quote is escaped, so text cannot look like one.
var sealMarks = [][]byte{
	[]byte(`"encrypted_content"`), []byte(`"signature"`), []byte(`"thoughtSignature"`), []byte(`"thought_signature"`),
	[]byte(`"redacted_thinking"`), []byte(`"reasoning_details"`), []byte(`"previous_response_id"`), []byte(`"item_reference"`),
}

func sealed(body []byte) bool {
	return slices.ContainsFunc(sealMarks, func(mark []byte) bool { return bytes.Contains(body, mark) })
}

// answered remembers who has answered a conversation, and what that says of the
// target's prompt cache.
func (r *Relay) answered(x *exchange) {
	if len(x.session.Prefixes) == 0 {
		return
	}
	if x.route.Credentials > 1 {
		r.live.pins.put(x.talkKey(x.session), x.target.String())
	}
	if h := x.route.History; h != nil {
		u := x.summary().Usage
		if u == nil {
			u = &llm.Usage{}
		}
		h.Seen(x.target.String(), x.session, int(u.TotalInput()), int(u.CacheRead))
	}
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
