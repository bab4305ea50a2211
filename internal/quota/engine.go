package quota

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// engine counts in memory. All accounts of an organisation are in one shard, so that
// one lock is enough to take from all of a request's accounts or from none.
type engine struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu       sync.Mutex
	accounts map[string]*account
	charged  map[string]int64 // ids of charges, and when
	swept    int64
}

// take is what is wanted of an account.
type take struct {
	requests, tokens, open int64
	cost                   usage.Money
}

func (a *Ask) take() take {
	if a.Part {
		return take{0, a.Tokens, 0, a.Cost}
	}
	return take{1, a.Tokens, 1, a.Cost}
}

const (
	idle = 60 * minute      // after which an account is forgotten
	keep = 24 * 60 * minute // one with a window: the ledger tells its sums less finely
)

func newEngine() *engine {
	e := &engine{seed: maphash.MakeSeed()}
	for i := range e.shards {
		e.shards[i].accounts = map[string]*account{}
	}
	return e
}

func (e *engine) shard(org string) *shard {
	return &e.shards[maphash.String(e.seed, org)%uint64(len(e.shards))]
}

// reserve takes from all accounts or from none. Where the spending of one is not
// known, unknown is its place; seed it and ask again.
func (s *shard) reserve(now int64, accounts []Account, want take, h *held) (unknown int, refusal *Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	worst := int64(0)
	for i := range accounts {
		a := s.account(accounts[i].ID, now)
		h.from[i] = a
		a.advance(now, accounts[i].Limit)
		h.blind = h.blind || a.blind
		if accounts[i].Limit.Budget > 0 && !a.known {
			return i, nil
		}
		reason, wait := a.check(now, accounts[i].Limit, want)
		if reason != "" && (refusal == nil || longer(wait, worst)) {
			worst = wait
			refusal = &Refusal{Account: accounts[i].ID, Reason: reason, RetryAfter: time.Duration(max(wait, 0)) * time.Millisecond}
		}
	}
	if refusal != nil {
		return -1, refusal
	}
	for i := range accounts {
		h.from[i].take(want)
	}
	h.shard, h.minute = s, h.from[0].requests.at
	return -1, nil
}

// longer compares two waits; below 0 is for ever.
func longer(wait, than int64) bool { return than >= 0 && (wait < 0 || wait > than) }

// settle gives back what was reserved and books what was used.
func (s *shard) settle(now int64, h *held, tokens int64, cost usage.Money) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range h.ask.Accounts {
		a := h.from[i]
		a.roll(now)
		a.tokens.correct(h.minute, tokens-h.ask.Tokens)
		a.open -= h.ask.take().open
		a.reserved -= h.ask.Cost
		a.spend(cost, a.newest)
	}
}

// charge books the cost of a request that has no reservation here, once for its id.
// An account that is not known yet will be seeded from the ledger, which has it.
func (s *shard) charge(now int64, ask *Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, done := s.charged[ask.ID]; done {
		return
	}
	if s.charged == nil {
		s.charged = map[string]int64{}
	}
	s.charged[ask.ID] = now
	for _, of := range ask.Accounts {
		if a := s.accounts[of.ID]; a != nil && a.known {
			a.advance(now, of.Limit)
			a.spend(ask.Cost, a.newest)
		}
	}
}

func (s *shard) account(id string, now int64) *account {
	a := s.accounts[id]
	if a == nil {
		a = &account{}
		s.accounts[id] = a
	}
	a.used = now
	return a
}

// sweep forgets accounts that nobody has used for long, so that memory is bounded
// by those that are in use. The ledger knows what they have spent.
func (s *shard) sweep(now int64) {
	if now-s.swept < minute {
		return
	}
	s.swept = now
	for id, a := range s.accounts {
		after := int64(idle)
		if a.buckets != nil {
			after = keep
		}
		if a.open == 0 && now-a.used > after {
			delete(s.accounts, id)
		}
	}
	for id, at := range s.charged {
		if now-at > idle {
			delete(s.charged, id)
		}
	}
}

// account is what is counted for one.
type account struct {
	used             int64 // when, in ms
	requests, tokens window
	open             int64
	reserved, spent  usage.Money
	known            bool // spent is what the ledger had, and what came since
	blind            bool // the ledger could not be asked: a hundredth of the budget may be used
	span             time.Duration
	newest           int64        // bucket of a budget's window
	buckets          *bucketArray // nil for all time
}

// A budget's window is counted in so many parts; spending leaves it in such steps.
const buckets = 60

type bucketArray [buckets]usage.Money

// advance brings the account to the present and to its limit.
func (a *account) advance(now int64, l Limit) {
	if a.span != l.span() { // the operator has changed it: the ledger is asked again
		a.known, a.blind, a.span, a.spent, a.buckets = false, false, l.span(), 0, nil
	}
	a.roll(now)
}

// roll brings the account to the present.
func (a *account) roll(now int64) {
	a.requests.roll(now / minute)
	a.tokens.roll(now / minute)
	if a.span == 0 {
		return
	}
	if a.buckets == nil {
		a.buckets, a.newest = &bucketArray{}, bucketAt(now, a.span)
	}
	for at := bucketAt(now, a.span); a.newest < at; {
		if at-a.newest > buckets { // all of it has left the window
			*a.buckets, a.spent, a.newest = bucketArray{}, 0, at
			return
		}
		a.newest++
		slot := &a.buckets[a.newest%buckets]
		a.spent -= *slot
		*slot = 0
	}
}

func bucketAt(now int64, span time.Duration) int64 {
	return int64(float64(now) * buckets / float64(span.Milliseconds()))
}

// span is the budget's window, 0 where there is no budget.
func (l Limit) span() time.Duration {
	if l.Budget == 0 {
		return 0
	}
	return l.Window
}

// spend books a cost in a bucket.
func (a *account) spend(cost usage.Money, bucket int64) {
	if a.buckets != nil {
		if bucket <= a.newest-buckets {
			return
		}
		a.buckets[bucket%buckets] += cost
	}
	a.spent += cost
}

func (a *account) take(want take) {
	a.requests.cur += want.requests
	a.tokens.cur += want.tokens
	a.open += want.open
	a.reserved += want.cost
}

// check finds the limit that is longest in the way, and for how many ms; below 0 is
// for ever.
func (a *account) check(now int64, l Limit, want take) (reason Reason, wait int64) {
	part := float64(now%minute) / minute
	consider := func(r Reason, w int64) {
		if reason == "" || longer(w, wait) {
			reason, wait = r, w
		}
	}
	if l.Requests > 0 && float64(want.requests) > float64(l.Requests)-a.requests.used(part) {
		consider(Requests, a.requests.wait(part, want.requests, l.Requests))
	}
	if l.Tokens > 0 && want.tokens > 0 && float64(want.tokens) > float64(l.Tokens)-a.tokens.used(part) {
		consider(Tokens, a.tokens.wait(part, want.tokens, l.Tokens))
	}
	if l.Concurrency > 0 && want.open > l.Concurrency-a.open {
		consider(Concurrency, second)
	}
	budget := l.Budget
	if a.blind {
		budget = max(1, budget/blindPart)
	}
	if l.Budget > 0 && want.cost > 0 && want.cost > budget-a.spent-a.reserved {
		if a.blind {
			consider(Budget, second)
		} else {
			consider(Budget, a.leave(now, want.cost, budget))
		}
	}
	return reason, wait
}

// leave says in how many ms enough has left the window of the budget.
func (a *account) leave(now int64, cost, budget usage.Money) int64 {
	over := a.spent + cost - budget
	switch {
	case cost > budget:
		return -1
	case over <= 0: // only what is open is in the way
		return second
	case a.buckets == nil:
		return -1
	}
	width := float64(a.span.Milliseconds()) / buckets
	for at := a.newest - buckets + 1; at <= a.newest; at++ {
		if over -= a.buckets[((at%buckets)+buckets)%buckets]; over <= 0 {
			return max(1, int64(math.Ceil(float64(at+buckets)*width-float64(now))))
		}
	}
	return a.span.Milliseconds()
}
