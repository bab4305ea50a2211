package quota

import (
	"math"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/sliding"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Use is what an account has used of its limits.
type Use struct {
	Requests, Tokens           float64 // in the last minute
	RequestsReset, TokensReset time.Duration
	Spent                      usage.Money // in the window of the budget, without reservations
}

// Used returns what an account has used as of the last reservation. It does not wait for Redis; while
// Redis is lost, ok is false.
func (l *Limiter) Used(org, account string) (u Use, ok bool) { return l.back.used(org, account) }

func newUse(requests, tokens *sliding.Minute, now int64, part float64, spent usage.Money) Use {
	return Use{requests.Used(part), tokens.Used(part), time.Duration(requests.Reset(now)) * time.Millisecond, time.Duration(tokens.Reset(now)) * time.Millisecond, spent}
}

func (m *memory) used(org, account string) (u Use, ok bool) {
	s := m.engine.shardOf(org)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[account]
	if a == nil {
		return u, true
	}
	now := m.clock().UnixMilli()
	a.roll(now)
	return newUse(&a.requests, &a.tokens, now, float64(now%minute)/minute, a.spent.Sum), true
}

func (r *redisBackend) used(org, account string) (u Use, ok bool) {
	if r.serverOf(org).usesShare() {
		return u, false
	}
	p, now := r.mirror.shardOf(org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.accounts[account]
	switch {
	case k == nil:
		return u, true
	case now-k.seenAt >= minute:
		return Use{Spent: k.spent}, true
	}
	return newUse(&sliding.Minute{Current: k.requests}, &sliding.Minute{Current: k.tokens}, now, 0, k.spent), true
}

// Reset returns the time, rounded up to a second, at which all spending until now has left the budget's
// window. It is the same for all requests in a sixtieth of the window, and zero without a window.
func (l Limit) Reset(now time.Time) time.Time {
	if l.Window <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(math.Ceil(sliding.Reset(now.UnixMilli(), l.Window)/second)), 0).UTC()
}
