package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		given := slices.Clone(c.values)
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(given, c.values) {
			t.Errorf("median changed its argument to %v", c.values)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

func TestPercentiles(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i)*time.Millisecond)
	}
	if p50, p99 := percentiles(all); p50 != 50 || p99 != 99 {
		t.Errorf("of 1 to 100 ms: p50 %v, p99 %v", p50, p99)
	}
	if p50, p99 := percentiles([]time.Duration{7 * time.Millisecond}); p50 != 7 || p99 != 7 {
		t.Errorf("of one value: p50 %v, p99 %v", p50, p99)
	}
	if p50, p99 := percentiles(nil); p50 != 0 || p99 != 0 {
		t.Errorf("of none: p50 %v, p99 %v", p50, p99)
	}
}

// A ratio is taken within a round, so a round that was slow for both does not count.
func TestRatiosAreTakenWithinRounds(t *testing.T) {
	of := &cell{Rounds: map[int]float64{0: 11, 1: 110, 2: 22, 3: 5}}
	to := &cell{Rounds: map[int]float64{0: 10, 1: 100, 2: 20, 4: 1}}
	got := ratios(of, to)
	if len(got) != 3 || math.Abs(median(got)-1.1) > 1e-9 {
		t.Errorf("ratios %v, want three of 1.1", got)
	}
	if got := ratios(&cell{Rounds: map[int]float64{0: 1}}, &cell{Rounds: map[int]float64{0: 0}}); got != nil {
		t.Errorf("a ratio to nothing is %v", got)
	}
}

func TestHighestFindsTheRate(t *testing.T) {
	for _, capacity := range []float64{40, 300, 1500, 4321, 9000} {
		got := highest(1000, 6, func(rate float64) bool { return rate <= capacity })
		if got > capacity || got < capacity*0.94 {
			t.Errorf("a capacity of %v was found as %v", capacity, got)
		}
	}
	if got := highest(1000, 3, func(float64) bool { return true }); got != 64000 {
		t.Errorf("a search without end went to %v", got)
	}
	if got := highest(1000, 3, func(float64) bool { return false }); got != 0 {
		t.Errorf("where nothing holds it found %v", got)
	}
}

func TestHighestForgivesOneHiccup(t *testing.T) {
	calls := map[float64]int{}
	got := highest(1000, 4, func(rate float64) bool {
		calls[rate]++
		return rate <= 4000 && calls[rate] > 1
	})
	if got < 3800 {
		t.Errorf("hiccups brought the rate down to %v", got)
	}
}

func TestNumbersAsText(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.0123: "0.012", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234567: "1,234,567", -1500: "-1,500", -0.5: "-0.50"} {
		if got := short(x); got != want {
			t.Errorf("short(%v) = %q, want %q", x, got, want)
		}
	}
	if got := short(math.NaN()); got != "–" {
		t.Errorf("no number is %q", got)
	}
}
