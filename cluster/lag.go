package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// between are those that began in a span of time.
func between(all []asked, from, to time.Time) (some []asked) {
	for _, a := range all {
		if !a.at.Before(from) && a.at.Before(to) {
			some = append(some, a)
		}
	}
	return some
}

// p99 is that of the times that requests took.
func p99(all []asked) time.Duration {
	if len(all) == 0 {
		return 0
	}
	times := make([]time.Duration, len(all))
	for i, a := range all {
		times[i] = a.took
	}
	slices.Sort(times)
	return times[int(math.Ceil(0.99*float64(len(times))))-1]
}

// span is a piece of time.
type span struct{ from, to time.Time }

// lags are requests that ask Redis and, in turn with them, others that do not. What
// slows both down is the machine.
type lags struct{ limited, control []asked }

// lag is what two loads took before something happened and while it did.
type lag struct{ before, during, controlBefore, controlDuring time.Duration }

// added compares spans with one before them.
func (l lags) added(before span, during ...span) lag {
	in := func(all []asked, spans ...span) time.Duration {
		var some []asked
		for _, s := range spans {
			some = append(some, between(all, s.from, s.to)...)
		}
		return p99(some)
	}
	return lag{in(l.limited, before), in(l.limited, during...), in(l.control, before), in(l.control, during...)}
}

// added is what p99 has grown by, less what that of the control has grown by.
func (l lag) added() time.Duration {
	return l.during - l.before - max(0, l.controlDuring-l.controlBefore)
}

func (l lag) String() string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("p99 %.2f ms, before %.2f (control %.2f and %.2f): %+.2f ms", ms(l.during), ms(l.before), ms(l.controlDuring), ms(l.controlBefore), ms(l.added()))
}
