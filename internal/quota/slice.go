package quota

import "github.com/isogloss-gateway/isogloss/internal/usage"

// tuple is the accounts of one key as they come together in its requests, and how
// many of those there are. One that is hot on a node has a slice: the node takes a
// tenth of a second's requests from Redis in one call and admits them by itself. A
// slice is taken from the accounts before it is used, like any reservation, so that
// nothing is overdrawn; what is left of it is given back.
type tuple struct {
	org          string
	since        int64 // in ms; counted are
	count        int64
	tokens       int64
	cost         usage.Money
	rate         float64 // requests a second, before
	meanTokens   int64
	meanCost     usage.Money
	slice        *slice
	taking       bool
	shrink       float64 // what slices are divided by, because there is not so much left
	resting      int64   // until then there is not enough left for slices at all
	lastAccounts []Account
}

// slice is what is left of one.
type slice struct {
	left   take
	ends   int64
	minute int64
	leases [maxAccounts]*lease
}

const (
	rateWindow = 250 // ms over which requests are counted
	sliceRest  = second
	sliceLeast = 8 // requests, for which a slice is worth it
	// slicePart is the part of what is left that the slices of all nodes may be.
	slicePart = 8
)

// seen counts a request.
func (t *tuple) seen(now int64, a *Ask) {
	t.count++
	t.tokens += a.Tokens
	t.cost += a.Cost
	if passed := now - t.since; passed >= rateWindow {
		t.rate = float64(t.count) * second / float64(passed)
		t.meanTokens, t.meanCost = (t.tokens+t.count-1)/t.count, (t.cost+usage.Money(t.count)-1)/usage.Money(t.count)
		t.since, t.count, t.tokens, t.cost = now, 0, 0, 0
	}
}

// size is what a slice for so many ms takes, and at least what is asked for now.
func (t *tuple) size(ms int64, a *Ask) take {
	n := max(1, int64(t.rate*float64(ms)/second/max(1, t.shrink)))
	return take{requests: n, open: n, tokens: max(a.Tokens, n*t.meanTokens), cost: max(a.Cost, usage.Money(n)*t.meanCost)}
}

// use takes a request's part out of the slice.
func (s *slice) use(now int64, a *Ask) bool {
	if s == nil || now >= s.ends || s.left.requests == 0 || s.left.tokens < a.Tokens || s.left.cost < a.Cost {
		return false
	}
	s.left.requests--
	s.left.open--
	s.left.tokens -= a.Tokens
	s.left.cost -= a.Cost
	return true
}

// sliced is how it went with a slice.
type sliced int

const (
	noSlice   sliced = iota // there is none; ask for the request alone
	fromSlice               // the request is reserved
	lostSlice               // Redis did not answer; do not ask again
)

// useSlice reserves from the slice of a hot key, and takes one where there is none.
func (r *remote) useSlice(a *Ask, h *held) sliced {
	if r.o.HotRate < 0 || a.Part {
		return noSlice
	}
	now := r.now()
	p := r.book.page(a.Org)
	p.mu.Lock()
	t := p.tuple(a, now)
	t.seen(now, a)
	if t.slice.use(now, a) {
		h.minute, h.leases = t.slice.minute, t.slice.leases
		p.mu.Unlock()
		r.stats.sliced.Add(1)
		return fromSlice
	}
	if t.rate < r.o.HotRate || t.taking || now < t.resting {
		p.mu.Unlock()
		return noSlice
	}
	t.taking = true
	rest := t.drop()
	want := t.size(r.o.Slice.Milliseconds(), a)
	p.mu.Unlock()
	r.giveBack(rest)
	return r.takeSlice(a, t, want, h)
}

// takeSlice takes one, and the request's part out of it.
func (r *remote) takeSlice(a *Ask, t *tuple, want take, h *held) sliced {
	got, err := r.take(a, r.mark(), want, slicePart*max(1, r.members.Load()))
	ok := err == nil && got.status == taken
	s := &slice{left: want}
	if ok {
		r.granted(a, want, got, h)
		s.minute, s.leases = h.minute, h.leases
	}
	p := r.book.page(a.Org)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := r.now()
	t.taking = false
	switch {
	case err != nil:
		return lostSlice
	case !ok:
		t.tooMuch(now, want)
		return noSlice
	}
	t.shrink /= 2
	s.ends = now + r.o.Slice.Milliseconds()
	t.slice = s
	if s.use(now, a) {
		r.stats.sliced.Add(1)
		return fromSlice
	}
	return noSlice // the slice is for so short that it is over
}

// tooMuch makes the next slice smaller, or there is none for a while.
func (t *tuple) tooMuch(now int64, want take) {
	t.shrink = 4 * max(1, t.shrink)
	if want.requests < 4*sliceLeast {
		t.shrink, t.resting = 1, now+sliceRest
	}
}

func (p *page) tuple(a *Ask, now int64) *tuple {
	name := tupleName(a.Org, a.Accounts)
	t := p.tuples[name]
	if t == nil {
		t = &tuple{org: a.Org, since: now}
		p.tuples[name] = t
	}
	t.lastAccounts = a.Accounts
	return t
}

// drop ends the slice and returns what is left of it, to be given back.
func (t *tuple) drop() *rest {
	s := t.slice
	t.slice = nil
	if s == nil || s.left == (take{}) {
		return nil
	}
	return &rest{slice: s, org: t.org, accounts: t.lastAccounts}
}

type rest struct {
	slice    *slice
	org      string
	accounts []Account
}

// giveBack returns what was not used.
func (r *remote) giveBack(b *rest) {
	if b == nil {
		return
	}
	left := b.slice.left
	it := &item{
		id: r.mark(), org: b.org, accounts: b.accounts, requests: -left.requests, tokens: -left.tokens, minute: b.slice.minute,
		open: left.open, reserved: left.cost,
	}
	r.release(it, b.slice.leases)
	r.queue.put(it)
}

// endSlices gives back those whose time is over, or all.
func (r *remote) endSlices(now int64) {
	for i := range r.book.shards {
		p := &r.book.shards[i]
		var over []*rest
		p.mu.Lock()
		for _, t := range p.tuples {
			if t.slice != nil && now >= t.slice.ends {
				if b := t.drop(); b != nil {
					over = append(over, b)
				}
			}
		}
		p.mu.Unlock()
		for _, b := range over {
			r.giveBack(b)
		}
	}
}
