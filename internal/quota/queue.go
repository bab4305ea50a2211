package quota

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// item is something that Redis has to be told, once.
type item struct {
	id       string
	org      string
	accounts []Account
	undo     bool  // of a reservation whose answer did not come
	requests int64 // to add
	tokens   int64
	minute   int64 // that they are added to; 0 is the present one
	open     int64 // to give back, with the reserved cost
	reserved usage.Money
	cost     usage.Money // to book
	born     [maxAccounts]int64
	later    [maxAccounts]*lease // the name is not known before they are sent
}

// undo gives back what may have been taken.
func undo(a *Ask, id string, want take) *item {
	return &item{
		id: id, org: a.Org, accounts: a.Accounts, undo: true, requests: -want.requests, tokens: -want.tokens, open: want.open, reserved: want.cost,
	}
}

// queue has what Redis was not told yet. It is bounded: beyond that, settlements of
// the same accounts are added up and become one. Nothing is dropped.
type queue struct {
	wake chan struct{}

	mu     sync.Mutex
	max    int
	items  []*item
	merged map[string]*item
}

func newQueue(size int) *queue { return &queue{wake: make(chan struct{}, 1), max: size} }

func (q *queue) put(it *item) {
	q.mu.Lock()
	if len(q.items) < q.max || it.undo {
		q.items = append(q.items, it)
	} else {
		q.merge(it)
	}
	q.mu.Unlock()
	q.nudge()
}

// nudge lets the loop that sends look.
func (q *queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// merge adds an item to the sum of its accounts. It was never sent, so its own id is
// of no use to Redis; the sum has the id of the first.
func (q *queue) merge(it *item) {
	if q.merged == nil {
		q.merged = map[string]*item{}
	}
	name := it.tuple()
	for i := range it.accounts {
		name += "|" + strconv.FormatInt(it.born[i], 36)
	}
	sum := q.merged[name]
	if sum == nil || sum.later != it.later {
		if sum != nil {
			q.items = append(q.items, sum)
		}
		first := *it
		q.merged[name] = &first
		return
	}
	sum.open += it.open
	sum.reserved += it.reserved
	sum.cost += it.cost
}

// tuple names the accounts of an item.
func (it *item) tuple() string { return tupleName(it.org, it.accounts) }

func tupleName(org string, accounts []Account) string {
	var b strings.Builder
	b.WriteString(org)
	for i := range accounts {
		b.WriteByte(0)
		b.WriteString(accounts[i].ID)
	}
	return b.String()
}

// next takes some out.
func (q *queue) next(n int) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		for _, it := range q.merged {
			q.items = append(q.items, it)
		}
		q.merged = nil
	}
	n = min(n, len(q.items))
	batch := q.items[:n:n]
	if q.items = q.items[n:]; len(q.items) == 0 {
		q.items = nil
	}
	return batch
}

// back puts some in again, before all others.
func (q *queue) back(items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(items[:len(items):len(items)], q.items...)
}

func (q *queue) size() (items, merged int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), len(q.merged)
}

func (q *queue) isEmpty() bool {
	items, merged := q.size()
	return items+merged == 0
}

const (
	batchItems = 1024 // settlements that are sent in one round trip
	callItems  = 64   // of them, in one call of the script
	// sendTimeout is longer than a request waits: nobody waits for it, and what it did
	// is known more often.
	sendTimeout = 500 * time.Millisecond
)

// send tells Redis what is queued first. It reports whether all of it was heard.
func (r *remote) send() bool {
	r.sending.Lock()
	defer r.sending.Unlock()
	client := r.client.Load()
	batch := r.queue.next(batchItems)
	if client == nil || len(batch) == 0 {
		r.queue.back(batch)
		return client != nil
	}
	groups := group(batch)
	calls := make([]call, len(groups))
	for i, items := range groups {
		calls[i] = r.settlement(items)
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	var failed error
	well := true
	for i, a := range run(ctx, *client, calls) {
		if a.err != nil || len(a.values) != 3*len(groups[i][0].accounts) {
			r.queue.back(groups[i])
			well, failed = false, a.err
		} else {
			r.settled(groups[i][0], a.values)
		}
	}
	r.heard(failed) // one round trip is one failure, however many calls it had
	return well
}

// group puts items of the same accounts together, in the order they came in.
func group(batch []*item) [][]*item {
	var groups [][]*item
	at := map[string]int{}
	for _, it := range batch {
		name := it.tuple()
		i, ok := at[name]
		if !ok || len(groups[i]) >= callItems {
			i = len(groups)
			at[name] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], it)
	}
	return groups
}

func (r *remote) settlement(items []*item) call {
	accounts := items[0].accounts
	c := call{script: &r.scripts.settle, args: []string{r.name}}
	c.arg(r.o.Mark.Milliseconds(), int64(len(accounts)))
	for i := range accounts {
		c.account(items[0].org, accounts[i].ID)
		c.arg(int64(accounts[i].Limit.Budget), accounts[i].Limit.span().Milliseconds())
	}
	for _, it := range items {
		kind, undo := "s:", int64(0)
		if it.undo {
			kind, undo = "r:", 1
		}
		c.keys = append(c.keys, key(it.org, kind, it.id))
		c.arg(undo, it.requests, it.tokens, it.minute, it.open, int64(it.reserved), int64(it.cost))
		for i := range accounts {
			if it.later[i] != nil { // what is sent and what is written down take turns, so it is known now
				it.born[i], it.later[i] = r.nameOf(it.org, it.later[i]), nil
			}
			c.arg(it.born[i])
		}
	}
	return c
}

func (r *remote) nameOf(org string, l *lease) int64 {
	p := r.book.page(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.born
}

// settled notes what the accounts have left.
func (r *remote) settled(it *item, values []int64) {
	p, now := r.book.page(it.org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range it.accounts {
		k := p.known[it.accounts[i].ID]
		v := values[3*i:]
		// A record that nobody has seeded, or another one than is known, says nothing yet.
		if k != nil && v[0] != 0 && (k.seeded == 0 || k.seeded == v[0]) {
			k.learn(v[0], usage.Money(v[1]), usage.Money(v[2]), now)
		}
	}
}
