package usage

import "time"

// Histogram counts times to the first token. Histograms can be added.
type Histogram [8]int64

// bounds are the upper bounds of all but the last count of a Histogram.
var bounds = [...]time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}

// Add counts a time. A time of zero is none.
func (h *Histogram) Add(t time.Duration) {
	if t <= 0 {
		return
	}
	for i, bound := range bounds {
		if t <= bound {
			h[i]++
			return
		}
	}
	h[len(bounds)]++
}

// Count returns the number of times.
func (h *Histogram) Count() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile returns the time that a share of the times does not exceed, interpolated between the
// bounds. It is 10 s if it is longer, and 0 without times.
func (h *Histogram) Quantile(share float64) time.Duration {
	want, low := share*float64(h.Count()), time.Duration(0)
	if want <= 0 {
		return 0
	}
	for i, bound := range bounds {
		if n := float64(h[i]); n > 0 && want <= n {
			return low + time.Duration(want/n*float64(bound-low))
		} else if n > 0 {
			want -= n
		}
		low = bound
	}
	return low
}

// HistogramBounds returns the upper bounds of all but the last count of a Histogram.
func HistogramBounds() []time.Duration { return bounds[:] }
