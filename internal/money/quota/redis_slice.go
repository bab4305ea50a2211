package quota

import (
	"github.com/isogloss-gateway/isogloss/internal/money/quota/few"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// keyState measures the reservation rate of one combination of key, team and organisation on this
// node, and holds its slice.
//
// A slice is a reservation for many requests. For a hot key the node reserves a tenth of a second's
// requests in one call and admits requests from it without calling Redis. It is reserved like any
// request, so nothing is overdrawn, and the unused rest is returned.
type keyState struct {
	countedSince int64 // start of the counts below, in ms
	requests     int64
	tokens       int64
	cost         usage.Money
	rate         float64 // requests per second of the previous interval
	meanTokens   int64
	meanCost     usage.Money
	slice        *slice
	fetching     bool    // a call for a slice is in flight
	divisor      float64 // reduces the slice size while accounts have little left
	noSliceUntil int64   // accounts have too little left for slices until then, in ms
}

// slice is a slice that this node has reserved.
type slice struct {
	left    amounts // not used yet
	expires int64   // in ms
	minute  int64
	leases  few.List[*lease]
	request *Request // names the accounts
}

const (
	rateWindow   = 250    // ms over which the rate is measured
	sliceBackoff = second // ms without slices after a slice was too large
	minSlice     = 8      // requests from which a slice is worth a call
	// sliceFraction is the part of what is left that the slices, or the allowances, of all nodes may
	// take: 1/8.
	sliceFraction = 8
)

// count counts a request for the rate.
func (t *keyState) count(now int64, req *Request) {
	t.requests++
	t.tokens += req.Tokens
	t.cost += req.Cost
	if passed := now - t.countedSince; passed >= rateWindow {
		t.rate = float64(t.requests) * second / float64(passed)
		t.meanTokens, t.meanCost = (t.tokens+t.requests-1)/t.requests, (t.cost+usage.Money(t.requests)-1)/usage.Money(t.requests)
		t.countedSince, t.requests, t.tokens, t.cost = now, 0, 0, 0
	}
}

// nextSlice returns the amounts of a slice for the given time, at least those of the request.
func (t *keyState) nextSlice(ms int64, req *Request) amounts {
	n := max(1, int64(t.rate*float64(ms)/second/max(1, t.divisor)))
	return amounts{requests: n, open: n, tokens: max(req.Tokens, n*t.meanTokens), cost: max(req.Cost, usage.Money(n)*t.meanCost)}
}

// take takes a request's amounts from the slice and reports whether they fit.
func (s *slice) take(now int64, req *Request) bool {
	if s == nil || now >= s.expires || s.left.requests == 0 || s.left.tokens < req.Tokens || s.left.cost < req.Cost {
		return false
	}
	s.left.requests--
	s.left.open--
	s.left.tokens -= req.Tokens
	s.left.cost -= req.Cost
	return true
}

// sliceResult is the result of a reservation from a slice.
type sliceResult int

const (
	noSlice   sliceResult = iota // there is no slice; reserve for the request alone
	fromSlice                    // the request is reserved
	redisLost                    // Redis did not respond; do not call it again
)

// useSlice reserves from the slice of a hot key, and fetches a slice if there is none.
func (r *redisServer) useSlice(req *Request, h *reservation) sliceResult {
	if r.options.HotRate < 0 || req.Extension {
		return noSlice
	}
	now := r.now()
	p := r.mirror.shardOf(req.Org)
	p.mu.Lock()
	t := p.key(req, now)
	t.count(now, req)
	if t.slice.take(now, req) {
		h.minute, h.leases = t.slice.minute, t.slice.leases
		p.mu.Unlock()
		r.counters.sliced.Add(1)
		return fromSlice
	}
	if t.rate < r.options.HotRate || t.fetching || now < t.noSliceUntil {
		p.mu.Unlock()
		return noSlice
	}
	t.fetching = true
	rest := t.endSlice()
	want := t.nextSlice(r.options.Slice.Milliseconds(), req)
	p.mu.Unlock()
	r.returnUnused(rest)
	return r.takeSlice(req, t, want, h)
}

// takeSlice fetches a slice and takes the request's amounts from it.
func (r *redisServer) takeSlice(req *Request, t *keyState, want amounts, h *reservation) sliceResult {
	got, err := r.take(req, r.newMark(), want, sliceFraction*max(1, r.nodes.Load()), h)
	ok := err == nil && got.Status == script.Granted
	s := &slice{left: want, request: req, minute: h.minute, leases: h.leases}
	p := r.mirror.shardOf(req.Org)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := r.now()
	t.fetching = false
	switch {
	case err != nil:
		return redisLost
	case !ok:
		t.backOff(now, want)
		return noSlice
	}
	t.divisor /= 2
	s.expires = now + r.options.Slice.Milliseconds()
	t.slice = s
	if s.take(now, req) {
		r.counters.sliced.Add(1)
		return fromSlice
	}
	return noSlice // the slice has expired already
}

// backOff makes the next slice smaller or, below the minimum, suspends slices for a while.
func (t *keyState) backOff(now int64, want amounts) {
	t.divisor = 4 * max(1, t.divisor)
	if want.requests < 4*minSlice {
		t.divisor, t.noSliceUntil = 1, now+sliceBackoff
	}
}

// key returns the state of a combination of accounts and creates it if necessary. The caller holds
// the lock.
func (p *mirrorShard) key(req *Request, now int64) *keyState {
	name := accountsKey(req.Org, req.Accounts)
	t := p.keys[name]
	if t == nil {
		t = &keyState{countedSince: now}
		p.keys[name] = t
	}
	return t
}

// endSlice removes the slice and returns it, nil if nothing of it is left.
func (t *keyState) endSlice() (s *slice) {
	if s, t.slice = t.slice, nil; s == nil || s.left == (amounts{}) {
		return nil
	}
	return s
}

// returnUnused queues the return of a slice's rest.
func (r *redisBackend) returnUnused(s *slice) {
	if s == nil {
		return
	}
	it := &change{
		id: r.newMark(), org: s.request.Org, accounts: s.request.Accounts, requests: -s.left.requests, tokens: -s.left.tokens, minute: s.minute,
		open: s.left.open, reserved: s.left.cost, places: few.Of[place](len(s.request.Accounts)),
	}
	r.release(it, &s.leases)
	r.put(it)
}

// endSlices returns the rest of slices that have expired by now.
func (r *redisBackend) endSlices(now int64) {
	for i := range r.mirror.shards {
		p := &r.mirror.shards[i]
		var over []*slice
		p.mu.Lock()
		for _, t := range p.keys {
			if t.slice != nil && now >= t.slice.expires {
				over = append(over, t.endSlice())
			}
		}
		p.mu.Unlock()
		for _, s := range over {
			r.returnUnused(s)
		}
	}
}
