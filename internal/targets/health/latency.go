package health

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	peakFade   = 10 * time.Second // in which a peak falls to 37 %
	sampleSize = 128
	sampleAge  = 10 * time.Minute // older samples are ignored
	sampleMin  = 20               // samples that a quantile needs
)

// latency measures the time to first token.
type latency struct {
	mu     sync.Mutex
	base   time.Duration // moving average of about eight responses
	peak   time.Duration // as it was at the instant at; see faded
	at     instant
	sample *sample // created with the first response: most configured targets are idle
}

// observe adds a measurement. It never blocks: while another goroutine holds the lock
// the measurement is dropped, which statistics can afford.
func (l *latency) observe(now instant, d time.Duration) {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.base == 0 {
		l.base = d
	} else {
		l.base = max(l.base+(d-l.base)/8, 1)
	}
	l.peak = max(d, l.faded(now))
	l.at = now
	if l.sample == nil {
		l.sample = new(sample)
	}
	l.sample.add(now, d)
}

// faded returns the smoothed time to first token: the base, plus the peak's excess over
// the base, which decays exponentially with peakFade.
func (l *latency) faded(now instant) time.Duration {
	if l.peak <= l.base {
		return l.base
	}
	age := max(now.since(l.at), 0)
	return l.base + time.Duration(float64(l.peak-l.base)*math.Exp(-float64(age)/float64(peakFade)))
}

func (l *latency) smoothed(f *Fleet) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peak <= l.base {
		return l.base
	}
	return l.faded(f.now())
}

func (l *latency) quantile(now instant, q float64) (time.Duration, bool) {
	var buf [sampleSize]uint32
	values := l.recent(buf[:0], now)
	if len(values) < sampleMin {
		return 0, false
	}
	slices.Sort(values)
	rank := int(math.Ceil(q*float64(len(values)))) - 1
	return time.Duration(values[min(max(rank, 0), len(values)-1)]) * time.Microsecond, true
}

// recent appends the samples that are not too old, in microseconds.
func (l *latency) recent(values []uint32, now instant) []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sample == nil {
		return values
	}
	oldest := max(now.add(-sampleAge), 0).seconds()
	for _, a := range l.sample.responses {
		if a.micros > 0 && a.second >= oldest {
			values = append(values, a.micros)
		}
	}
	return values
}

// sample is a ring of the latest responses.
type sample struct {
	next      int
	responses [sampleSize]struct{ second, micros uint32 }
}

func (s *sample) add(now instant, d time.Duration) {
	a := &s.responses[s.next%sampleSize]
	a.second = now.seconds()
	a.micros = uint32(min(max(d.Microseconds(), 1), math.MaxUint32))
	s.next++
}

func (i instant) seconds() uint32 { return uint32(i / instant(time.Second)) }
