package quota

import "math"

const (
	minute = 60_000 // ms
	second = 1_000
)

// slidingMinute counts events of the last 60 seconds with two counters: the current minute, and the
// previous one weighted by the part that is still within 60 seconds, assuming an even rate.
//
// The error depends on how uneven the rate was. After a burst at the end of a quiet minute, up to
// twice the limit can pass within 60 seconds; after a burst at its beginning, less than the limit.
// Over two minutes or more at most the limit per minute passes.
type slidingMinute struct{ minute, current, previous int64 }

// roll moves the counters to the given minute.
func (w *slidingMinute) roll(at int64) {
	switch {
	case at == w.minute || at < w.minute && w.minute-at <= 2: // the clock was set back
		return
	case at == w.minute+1:
		w.previous = w.current
	default:
		w.previous = 0
	}
	w.minute, w.current = at, 0
}

// used returns the estimated count of the last 60 seconds; part is the elapsed part of the current
// minute.
func (w *slidingMinute) used(part float64) float64 {
	return float64(w.previous)*(1-part) + float64(w.current)
}

// correct adds n to the minute in which an event was counted.
func (w *slidingMinute) correct(at, n int64) {
	switch at {
	case w.minute:
		w.current = max(0, w.current+n)
	case w.minute - 1:
		w.previous = max(0, w.previous+n)
	}
}

// waitFor returns after how many ms n more fit under the limit. A negative result means never.
func (w *slidingMinute) waitFor(part float64, n, limit int64) int64 {
	var minutes float64
	switch {
	case n > limit:
		return -1
	case w.current+n <= limit:
		minutes = 1 - float64(limit-w.current-n)/float64(w.previous) - part
	default:
		minutes = 2 - part - float64(limit-n)/float64(w.current)
	}
	return max(1, int64(math.Ceil(minutes*minute)))
}
