package quota

import "math"

const (
	minute = 60_000 // ms
	second = 1_000
)

// window counts what happened in a sliding minute with two counters: that of the
// present minute, and that of the one before, of which the part counts that has not
// yet slid out, as if it had been spread evenly.
//
// Where it was not, the count is off by what was uneven: after a burst at the end of
// a quiet minute up to twice the limit can pass within sixty seconds, and after one
// at its beginning too little does. Over two minutes and more nobody gets more than
// the limit a minute.
type window struct{ at, cur, prev int64 }

func (w *window) roll(at int64) {
	switch {
	case at == w.at || at < w.at && w.at-at <= 2: // a clock that was set back a little
		return
	case at == w.at+1:
		w.prev = w.cur
	default:
		w.prev = 0
	}
	w.at, w.cur = at, 0
}

func (w *window) used(part float64) float64 {
	return float64(w.prev)*(1-part) + float64(w.cur)
}

// correct adds to the minute in which something was counted.
func (w *window) correct(at, n int64) {
	switch at {
	case w.at:
		w.cur = max(0, w.cur+n)
	case w.at - 1:
		w.prev = max(0, w.prev+n)
	}
}

// wait says in how many ms so many more fit; below 0 is for ever.
func (w *window) wait(part float64, n, limit int64) int64 {
	var minutes float64
	switch {
	case n > limit:
		return -1
	case w.cur+n <= limit:
		minutes = 1 - float64(limit-w.cur-n)/float64(w.prev) - part
	default:
		minutes = 2 - part - float64(limit-n)/float64(w.cur)
	}
	return max(1, int64(math.Ceil(minutes*minute)))
}
