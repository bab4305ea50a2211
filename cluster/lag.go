package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// between returns the exchanges that began in a span of time.
func between(all []exchange, from, to time.Time) []exchange {
	return testrig.Pick(all, func(e exchange) bool { return !e.at.Before(from) && e.at.Before(to) })
}

// p99 returns the 99th percentile of the times that exchanges took.
func p99(all []exchange) time.Duration {
	return testrig.Quantile(all, 0.99, func(e exchange) time.Duration { return e.took })
}

// span is a span of time.
type span struct{ from, to time.Time }

// lags holds requests that need Redis and, alternating with them, a control load that
// does not. What slows both down is the machine.
type lags struct{ limited, control []exchange }

// compare counts the limited requests in a span that took longer than the control request
// after them, by more than a time, and those that took less. The machine delays as many of
// one kind as of the other. It also returns how many pairs there are.
func (l lags) compare(by time.Duration, in span) (slower, faster, pairs int) {
	order := func(a, b exchange) int { return a.at.Compare(b.at) }
	limited, control := between(l.limited, in.from, in.to), between(l.control, in.from, in.to)
	slices.SortFunc(limited, order)
	slices.SortFunc(control, order)
	for i := range min(len(limited), len(control)) {
		switch took := limited[i].took - control[i].took; {
		case took > by:
			slower++
		case took < -by:
			faster++
		}
	}
	return slower, faster, min(len(limited), len(control))
}

// lag is the p99 of both loads before something happened and while it happened.
type lag struct{ before, during, controlBefore, controlDuring time.Duration }

// measure compares spans with one before them.
func (l lags) measure(before span, during ...span) lag {
	in := func(all []exchange, spans ...span) time.Duration {
		var some []exchange
		for _, s := range spans {
			some = append(some, between(all, s.from, s.to)...)
		}
		return p99(some)
	}
	return lag{in(l.limited, before), in(l.limited, during...), in(l.control, before), in(l.control, during...)}
}

// added returns the growth of p99, less the growth of the control's.
func (l lag) added() time.Duration {
	return l.during - l.before - max(0, l.controlDuring-l.controlBefore)
}

// noise returns how far the control's p99 moved: the measurement is not more exact than that.
func (l lag) noise() time.Duration { return (l.controlDuring - l.controlBefore).Abs() }

func (l lag) String() string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("p99 %.2f ms, before %.2f (control %.2f and %.2f): %+.2f ms", ms(l.during), ms(l.before), ms(l.controlDuring), ms(l.controlBefore), ms(l.added()))
}
