// Package allowance decides how much money of an account a node reserves in advance.
package allowance

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Allowance is money of an account that a node has reserved in Redis before requests need it. Requests
// take their maximum cost from it and return the unused part to it, without a call of Redis. Money that
// requests have spent stays reserved until the node reports it, so that a budget is not overdrawn. The
// number of calls depends on the number of nodes, not on the number of requests.
//
// Times are in milliseconds. The methods are not safe for concurrent use.
type Allowance struct {
	free  usage.Money // reserved and not used by a request
	owed  usage.Money // spent and not reported
	total usage.Money // what the account has spent in the log of this process
	since time.Time   // time of the oldest spending that is not reported
	until int64       // the reservation may end in Redis after this time

	usedAt    int64 // time of the last request
	countedAt int64 // start of the two counts below
	requests  int64
	reserved  usage.Money
	rate      float64     // requests per second
	flow      usage.Money // reserved per second

	reportedAt int64
	refillAt   int64       // no refill before this time
	refusedTil int64       // time until which Redis is assumed to refuse
	refused    usage.Money // lowest cost that Redis has refused lately
}

const (
	second = 1000

	hotRate      = 4  // requests per second on this node from which an account has an allowance
	firstCount   = 16 // requests after which the rate is estimated for the first time
	horizon      = 2  // intervals between reports that an allowance lasts
	fraction     = 8  // all allowances together are at most 1/fraction of what is left
	perCall      = 4  // number of nodes for which the wait between two calls is one millisecond longer
	minWait      = 50
	reportEvery  = second
	returnFactor = 2 // a free part of more than this multiple of the size is reduced early
)

// Pace returns the shortest time between two calls that a node makes because little is left of a budget.
// All nodes together make at most four such calls per millisecond.
func Pace(nodes int64) int64 { return max(minWait, nodes/perCall) }

// interval returns the time between two reports: a second, or a millisecond per node if that is longer.
func interval(nodes int64) int64 { return max(reportEvery, nodes) }

// Count counts a request for the rate, and reports whether the rate is high enough for an allowance.
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

// IsHot reports whether the rate of requests is high enough for an allowance.
func (a *Allowance) IsHot() bool { return a.rate >= hotRate }

// Take takes the maximum cost of a request from the free part. It reports whether there was enough.
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

// size returns the intended size of the allowance: the reservations of two report intervals, but
// at most this node's part of the account's rest.
func (a *Allowance) size(left usage.Money, nodes int64) usage.Money {
	want, part := float64(a.flow)*horizon*float64(interval(nodes))/second, left/usage.Money(fraction*max(1, nodes))
	if want < float64(part) {
		return usage.Money(want)
	}
	return max(0, part)
}

// Refill returns the amount to reserve now, before a request of the given cost. 0 means none.
func (a *Allowance) Refill(now int64, cost, left usage.Money, nodes int64) usage.Money {
	size := a.size(left, nodes)
	if now < a.refillAt || now < a.until && a.free >= max(cost, size/2) || size < cost {
		return 0
	}
	return size - min(size-cost, max(0, a.free))
}

// Grant adds an amount that was reserved. It can be used until the given time.
func (a *Allowance) Grant(now int64, amount usage.Money, until int64) {
	if a.reportedAt == 0 {
		a.reportedAt = now
	}
	a.free += amount
	a.until = until
}

// Renew extends the time until which the allowance can be used.
func (a *Allowance) Renew(until int64) { a.until = max(a.until, until) }

// Fail suspends refills for a moment, because one has failed.
func (a *Allowance) Fail(now, nodes int64) { a.refillAt = now + Pace(nodes) }

// Refuse records that Redis has refused the cost of a request.
func (a *Allowance) Refuse(now int64, cost usage.Money, nodes int64) {
	if now >= a.refusedTil || cost < a.refused {
		a.refused = cost
	}
	a.refusedTil = now + Pace(nodes)
}

// Refused reports whether Redis has refused the same cost, or a lower one, a moment ago.
func (a *Allowance) Refused(now int64, cost usage.Money) bool {
	return now < a.refusedTil && cost >= a.refused
}

// Report is what a node tells Redis about an allowance.
type Report struct {
	Reserved usage.Money // part of the reservation to return: what was spent, and what is not needed
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

// End returns a report that returns everything to the account.
func (a *Allowance) End() Report { return a.end(0) }

// Spent returns a report of what was spent, and keeps the free part.
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

// Lose drops the free part, because its reservation has ended in Redis. It returns the dropped amount.
func (a *Allowance) Lose() usage.Money {
	free := a.free
	a.free, a.until = 0, 0
	return free
}

// IsEmpty reports whether nothing is free and nothing has to be reported.
func (a *Allowance) IsEmpty() bool { return a.free == 0 && a.owed == 0 }

// Free returns what is reserved and not used by a request.
func (a *Allowance) Free() usage.Money { return a.free }

// Owed returns what was spent and not reported, and since when.
func (a *Allowance) Owed() (usage.Money, time.Time) { return a.owed, a.since }
