package quota

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/sliding"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// engine counts the use of accounts in memory. All accounts of an organisation are in one shard, so
// that one lock covers all accounts of a request.
type engine struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu       sync.Mutex
	accounts map[string]*account
	sweptAt  int64 // in ms
}

// amounts is what a reservation takes from each of its accounts.
type amounts struct {
	requests, tokens, open int64
	cost                   usage.Money
}

// amounts returns what the request takes from each account. An extension takes no request and no
// open slot.
func (req *Request) amounts() amounts {
	if req.Extension {
		return amounts{0, req.Tokens, 0, req.Cost}
	}
	return amounts{1, req.Tokens, 1, req.Cost}
}

const (
	minute = 60_000 // ms
	second = 1_000

	idleTTL           = 60 * minute      // time after which an unused account is deleted
	idleTTLWithWindow = 24 * 60 * minute // longer with a budget window: the ledger restores it only coarsely
)

func newEngine() *engine {
	e := &engine{seed: maphash.MakeSeed()}
	for i := range e.shards {
		e.shards[i].accounts = map[string]*account{}
	}
	return e
}

func (e *engine) shardOf(org string) *shard {
	return &e.shards[maphash.String(e.seed, org)%uint64(len(e.shards))]
}

// reserve takes amounts from all accounts or from none. If the spending of an account with a budget
// has not been loaded, unknown is its index: load it and call reserve again. Otherwise unknown is -1.
func (s *shard) reserve(now int64, accounts []Account, want amounts, h *reservation) (unknown int, refusal *Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	worst := int64(0)
	for i := range accounts {
		a := s.account(accounts[i].ID, now)
		*h.accounts.At(i) = a
		a.advance(now, accounts[i].Limit)
		h.provisional = h.provisional || a.provisional
		if accounts[i].Limit.Budget > 0 && !a.seeded {
			return i, nil
		}
		reason, wait := a.exceeded(now, accounts[i].Limit, want)
		if reason != "" && (refusal == nil || longer(wait, worst)) {
			worst = wait
			refusal = accounts[i].refuse(reason, time.Duration(wait)*time.Millisecond)
		}
	}
	if refusal != nil {
		return -1, refusal
	}
	for i := range accounts {
		(*h.accounts.At(i)).add(want)
	}
	h.shard, h.minute = s, (*h.accounts.At(0)).requests.At
	return -1, nil
}

// longer reports whether the first wait is longer. A negative wait never ends.
func longer(wait, than int64) bool { return than >= 0 && (wait < 0 || wait > than) }

// settle returns a reservation and charges the actual use.
func (s *shard) settle(now int64, h *reservation, tokens int64, charge func(*account, string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range h.request.Accounts {
		a := *h.accounts.At(i)
		a.roll(now)
		a.tokens.Correct(h.minute, tokens-h.request.Tokens)
		a.open -= h.request.amounts().open
		a.reserved -= h.request.Cost
		charge(a, h.request.Accounts[i].ID)
	}
}

// setTotal sets what an owner has spent in a log, in the accounts of all its budgets. An account that
// is not seeded is skipped, because its seed will include the logs.
func (s *shard) setTotal(now int64, t usage.Total) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range budget.Max {
		if a := s.accounts[budget.Account(t.Account, n+1)]; a != nil && a.seeded {
			a.roll(now)
			a.setTotal(t.Log, t.Spent)
		}
	}
}

// account returns the account with the given id and creates it if necessary.
func (s *shard) account(id string, now int64) *account {
	a := s.accounts[id]
	if a == nil {
		a = &account{}
		s.accounts[id] = a
	}
	a.lastUsed = now
	return a
}

// sweep deletes idle accounts, at most once per minute. The ledger still has their spending.
func (s *shard) sweep(now int64) {
	if now-s.sweptAt < minute {
		return
	}
	s.sweptAt = now
	for id, a := range s.accounts {
		after := int64(idleTTL)
		if a.spent.Span > 0 {
			after = idleTTLWithWindow
		}
		if a.open == 0 && now-a.lastUsed > after {
			delete(s.accounts, id)
		}
	}
}

// account holds the counters of one account.
type account struct {
	lastUsed         int64 // in ms
	requests, tokens sliding.Minute
	open             int64
	reserved         usage.Money
	reservedByOthers usage.Money    // reserved by other processes of this machine
	spent            sliding.Window // in the window of the budget
	logs             []logTotal     // for each log, the total that spent includes
	seeded           bool           // spent includes the ledger's sum
	provisional      bool           // the ledger could not be queried; only 1/provisionalPart of the budget is allowed
}

// logTotal is what an account has spent in one log.
type logTotal struct {
	log   string
	spent usage.Money
}

// setTotal sets what the account has spent in a log, and adds the difference to spent.
func (a *account) setTotal(log string, total usage.Money) {
	i := slices.IndexFunc(a.logs, func(l logTotal) bool { return l.log == log })
	if i < 0 {
		i = len(a.logs)
		a.logs = append(a.logs, logTotal{log: log})
	}
	if more := total - a.logs[i].spent; more > 0 {
		a.logs[i].spent = total
		a.spent.Add(more, 0)
	}
}

// seed sets spent to the ledger's sums, plus what the logs have and the ledger does not have yet.
func (a *account) seed(from seed.Seed, logs []usage.Total) {
	a.spent.Clear()
	a.logs, a.seeded, a.provisional = nil, true, false
	for n, v := range from.Parts {
		a.spent.Add(v, int64(n*sliding.Buckets/seed.PartCount))
	}
	for _, t := range from.Logs {
		a.logs = append(a.logs, logTotal{t.Log, t.Spent})
	}
	for _, t := range logs {
		a.setTotal(t.Log, t.Spent)
	}
}

// advance moves the account to the current time. If the operator has changed the budget's window,
// the account has to be seeded again.
func (a *account) advance(now int64, l Limit) {
	if a.spent.Span != l.budgetWindow() {
		a.seeded, a.provisional, a.spent = false, false, sliding.Window{Span: l.budgetWindow()}
	}
	a.roll(now)
}

// roll moves the account's counters to the current time.
func (a *account) roll(now int64) {
	a.requests.Roll(now / minute)
	a.tokens.Roll(now / minute)
	a.spent.Roll(now)
}

// budgetWindow returns the window of the budget, 0 where there is no budget.
func (l Limit) budgetWindow() time.Duration {
	if l.Budget == 0 {
		return 0
	}
	return l.Window
}

// add adds a reservation to the counters.
func (a *account) add(want amounts) {
	a.requests.Current += want.requests
	a.tokens.Current += want.tokens
	a.open += want.open
	a.reserved += want.cost
}

// exceeded returns the exceeded limit with the longest wait, and the wait in ms. A negative wait
// never ends.
func (a *account) exceeded(now int64, l Limit, want amounts) (reason Reason, wait int64) {
	part := float64(now%minute) / minute
	consider := func(r Reason, w int64) {
		if reason == "" || longer(w, wait) {
			reason, wait = r, w
		}
	}
	if l.Requests > 0 && want.requests > 0 && float64(want.requests) > float64(l.Requests)-a.requests.Used(part) {
		consider(Requests, a.requests.WaitFor(part, want.requests, l.Requests))
	}
	if l.Tokens > 0 && want.tokens > 0 && float64(want.tokens) > float64(l.Tokens)-a.tokens.Used(part) {
		consider(Tokens, a.tokens.WaitFor(part, want.tokens, l.Tokens))
	}
	if l.Concurrency > 0 && want.open > 0 && want.open > l.Concurrency-a.open {
		consider(Concurrency, second)
	}
	limit := l.Budget
	if a.provisional {
		limit = max(1, limit/provisionalPart)
	}
	if l.Budget > 0 && want.cost > 0 && want.cost > limit-a.spent.Sum-a.reserved-a.reservedByOthers {
		if a.provisional {
			consider(Budget, second)
		} else {
			consider(Budget, a.spent.WaitFor(now, want.cost, limit))
		}
	}
	return reason, wait
}
