package quota

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/quota/sliding"
)

// Rate is what is left of a limit per minute. The zero Rate is no limit.
type Rate struct {
	Limit, Left int64
	Reset       time.Duration // until all of it is left again, if nothing else is used
}

// Rates returns what a caller's accounts have left of their requests and tokens per minute. If
// several have a limit, the least counts. Rates does not wait for Redis: it returns the state as of
// the last reservation, and nothing while Redis is lost.
func (l *Limiter) Rates(org string, accounts []Account) (requests, tokens Rate) {
	for _, a := range accounts {
		u, ok := l.back.used(org, a.ID)
		if !ok {
			return Rate{}, Rate{}
		}
		requests = requests.least(a.Limit.Requests, u.requests, u.requestsReset)
		tokens = tokens.least(a.Limit.Tokens, u.tokens, u.tokensReset)
	}
	return requests, tokens
}

// least returns the rate of which less is left: r, or that of a limit.
func (r Rate) least(limit int64, used float64, reset int64) Rate {
	left := max(0, int64(float64(limit)-used))
	if limit == 0 || r.Limit > 0 && r.Left <= left {
		return r
	}
	return Rate{limit, left, time.Duration(reset) * time.Millisecond}
}

// minuteUse is the use of an account in the last minute, and in how many ms it is forgotten.
type minuteUse struct {
	requests, tokens           float64
	requestsReset, tokensReset int64
}

func (m *memory) used(org, account string) (u minuteUse, ok bool) {
	s := m.engine.shardOf(org)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[account]
	if a == nil {
		return u, true
	}
	now := m.clock().UnixMilli()
	a.roll(now)
	part := float64(now%minute) / minute
	return minuteUse{a.requests.Used(part), a.tokens.Used(part), a.requests.Reset(now), a.tokens.Reset(now)}, true
}

func (r *redisBackend) used(org, account string) (u minuteUse, ok bool) {
	if r.serverOf(org).lost.Load() {
		return u, false
	}
	p, now := r.mirror.shardOf(org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.accounts[account]
	if k == nil || now-k.seenAt >= minute {
		return u, true
	}
	requests, tokens := sliding.Minute{Current: k.requests}, sliding.Minute{Current: k.tokens}
	return minuteUse{float64(k.requests), float64(k.tokens), requests.Reset(now), tokens.Reset(now)}, true
}
