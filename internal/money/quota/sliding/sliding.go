// Package sliding counts events per minute, and sums spending per time window.
package sliding

import "math"

const minute = 60_000 // ms

// Minute estimates the number of events in the last 60 seconds from two counters. Current counts the
// current minute. Previous counts the minute before, and is weighted by the part of that minute that is
// less than 60 seconds ago. The weight assumes an even rate.
//
// The error depends on how uneven the rate was. After a burst at the end of a quiet minute, up to
// twice the limit can pass within 60 seconds; after a burst at its beginning, less than the limit.
// Over two minutes or more at most the limit per minute passes.
type Minute struct{ At, Current, Previous int64 }

// Roll moves the counters to the given minute.
func (m *Minute) Roll(at int64) {
	switch {
	case at == m.At || at < m.At && m.At-at <= 2: // the clock was set back
		return
	case at == m.At+1:
		m.Previous = m.Current
	default:
		m.Previous = 0
	}
	m.At, m.Current = at, 0
}

// Used returns the estimated count of the last 60 seconds; part is the elapsed part of the current
// minute.
func (m *Minute) Used(part float64) float64 {
	return float64(m.Previous)*(1-part) + float64(m.Current)
}

// Correct adds n to the minute in which an event was counted.
func (m *Minute) Correct(at, n int64) {
	switch at {
	case m.At:
		m.Current = max(0, m.Current+n)
	case m.At - 1:
		m.Previous = max(0, m.Previous+n)
	}
}

// WaitFor returns the time in ms until n more events fit under the limit. A negative result means never.
func (m *Minute) WaitFor(part float64, n, limit int64) int64 {
	var minutes float64
	switch {
	case n > limit:
		return -1
	case m.Current+n <= limit:
		minutes = 1 - float64(limit-m.Current-n)/float64(m.Previous) - part
	default:
		minutes = 2 - part - float64(limit-n)/float64(m.Current)
	}
	return max(1, int64(math.Ceil(minutes*minute)))
}

// Reset returns the time in ms until the estimate is zero, if no further event is counted.
func (m *Minute) Reset(now int64) int64 {
	switch {
	case m.Current > 0:
		return 2*minute - now%minute
	case m.Previous > 0:
		return minute - now%minute
	}
	return 0
}
