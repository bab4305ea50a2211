// Package allowance decides how much money of an account a node reserves in advance.
package allowance

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Allowance is money of an account that a node has reserved in Redis before requests need it. Requests
// take their maximum cost from it and return the unused part to it, without a call of Redis. What they
// have spent stays reserved until it is reported. So a budget is not overdrawn, and the number of calls
// depends on the number of nodes, not on the number of requests.
//
// Times are in milliseconds. The methods are not safe for concurrent use.
type Allowance struct {
	free  usage.Money // reserved and not used by a request
	owed  usage.Money // spent and not reported
	total usage.Money // what the account has spent in the log of this process
	since time.Time   // of the oldest spending that is not reported
	until int64       // the reservation may end in Redis after this time

	usedAt    int64 // of the last request
	countedAt int64 // start of the counts
	requests  int64
	reserved  usage.Money
	rate      float64     // requests per second
	flow      usage.Money // reserved per second

	reportedAt int64
	refillAt   int64       // no refill before
	refusedTil int64       // Redis refuses until then, as far as is known
	refused    usage.Money // cost of the request that was refused
}

const (
	second = 1000

	hotRate      = 4  // requests per second of an account on a node from which it has an allowance
	firstCount   = 16 // requests after which the rate is estimated for the first time
	horizon      = 2  // seconds that an allowance lasts
	fraction     = 8  // all allowances together are at most this part of what is left
	perCall      = 4  // nodes per millisecond of waiting between two calls
	minWait      = 50
	reportEvery  = second
	returnFactor = 2 // an allowance of more than this multiple of its size is returned early
)

// Pace returns the shortest time between two calls of a node that a shortage causes. All nodes together
// make at most four calls per millisecond.
func Pace(nodes int64) int64 { return max(minWait, nodes/perCall) }

// interval returns the time between two reports: a second, and more for more than a thousand nodes.
func interval(nodes int64) int64 { return max(reportEvery, nodes) }

// Count counts a request for the rate and reports whether the account has enough requests for an allowance.
func (a *Allowance) Count(now int64, cost usage.Money) bool {
	if a.requests == 0 && a.rate == 0 || now-a.countedAt > 10*second {
		a.countedAt, a.requests, a.reserved, a.rate = now, 0, 0, 0
	}
	a.usedAt = now
	a.requests++
	a.reserved += cost
	passed := max(1, now-a.countedAt)
	if passed >= second || a.rate == 0 && a.requests == firstCount {
		a.rate = float64(a.requests) * second / float64(passed)
		a.flow = usage.Money(float64(a.reserved) * second / float64(passed))
		a.countedAt, a.requests, a.reserved = now, 0, 0
	}
	return a.IsHot()
}

// IsHot reports whether the account has had enough requests for an allowance.
func (a *Allowance) IsHot() bool { return a.rate >= hotRate }

// Take takes the maximum cost of a request and reports whether there is enough.
func (a *Allowance) Take(now int64, cost usage.Money) bool {
	if now >= a.until || a.free < cost {
		return false
	}
	a.free -= cost
	return true
}

// Settle ends a request. The total is what the account has spent in the log of this process.
func (a *Allowance) Settle(reserved, cost, total usage.Money, now time.Time) {
	if a.owed == 0 {
		a.since = now
	}
	a.free += reserved - cost // negative if the request has spent more than it has reserved
	a.owed += cost
	a.total = max(a.total, total)
}

// size returns the size of the allowance, if the account has left that much on all nodes.
func (a *Allowance) size(left usage.Money, nodes int64) usage.Money {
	want, part := float64(a.flow)*horizon*float64(interval(nodes))/second, left/usage.Money(fraction*max(1, nodes))
	if want < float64(part) {
		return usage.Money(want)
	}
	return max(0, part)
}

// Refill returns how much to reserve now; 0 is nothing.
func (a *Allowance) Refill(now int64, cost, left usage.Money, nodes int64) usage.Money {
	size := a.size(left, nodes)
	if now < a.refillAt || now < a.until && a.free >= max(cost, size/2) || size < cost {
		return 0
	}
	return size - min(size-cost, max(0, a.free))
}

// Grant adds what was reserved. It can be used until a time.
func (a *Allowance) Grant(now int64, amount usage.Money, until int64) {
	if a.reportedAt == 0 {
		a.reportedAt = now
	}
	a.free += amount
	a.until = until
}

// Renew extends the time of use.
func (a *Allowance) Renew(until int64) { a.until = max(a.until, until) }

// Fail suspends refills: Redis has refused one.
func (a *Allowance) Fail(now, nodes int64) { a.refillAt = now + Pace(nodes) }

// Refuse notes that Redis has refused the cost of a request.
func (a *Allowance) Refuse(now int64, cost usage.Money, nodes int64) {
	if now >= a.refusedTil || cost < a.refused {
		a.refused = cost
	}
	a.refusedTil = now + Pace(nodes)
}

// Refused reports whether Redis would refuse a cost, because it has refused it or less a moment ago.
func (a *Allowance) Refused(now int64, cost usage.Money) bool {
	return now < a.refusedTil && cost >= a.refused
}

// Report is what Redis has to know.
type Report struct {
	Reserved usage.Money // to return: what was spent, and what is not needed
	Total    usage.Money // what the account has spent in the log of this process
}

// Report returns a report if one is due.
func (a *Allowance) Report(now int64, left usage.Money, nodes int64) (r Report, due bool) {
	size, passed := a.size(left, nodes), now-a.reportedAt
	if now-a.usedAt > 2*second {
		size = 0
	}
	switch {
	case passed >= interval(nodes) && (a.owed > 0 || a.free > size):
	case passed >= 4*Pace(nodes) && a.free > returnFactor*size:
	default:
		return r, false
	}
	a.reportedAt = now
	return a.end(size), true
}

// End returns everything.
func (a *Allowance) End() Report { return a.end(0) }

// Spent reports what was spent and keeps the rest.
func (a *Allowance) Spent() Report { return a.end(max(0, a.free)) }

func (a *Allowance) end(keep usage.Money) Report {
	back := a.free // if it is negative, requests have spent more than was reserved
	if back > 0 {
		back = max(0, back-keep)
	}
	r := Report{a.owed + back, a.total}
	a.free, a.owed = a.free-back, 0
	return r
}

// Lose forgets the free part: the reservation has ended in Redis. It returns what was forgotten.
func (a *Allowance) Lose() usage.Money {
	free := a.free
	a.free, a.until = 0, 0
	return free
}

// IsEmpty reports whether nothing is free and nothing has to be reported.
func (a *Allowance) IsEmpty() bool { return a.free == 0 && a.owed == 0 }

// Free returns what is reserved and not used.
func (a *Allowance) Free() usage.Money { return a.free }

// Owed returns what was spent and not reported, and since when.
func (a *Allowance) Owed() (usage.Money, time.Time) { return a.owed, a.since }
