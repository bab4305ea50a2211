package main

import (
	"math"
	"slices"
)

// median returns the median; of an even number of values, the mean of the middle two.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	m := len(v) / 2
	if len(v)%2 == 1 {
		return v[m]
	}
	return (v[m-1] + v[m]) / 2
}

// ratios returns the ratios of the rounds that both sides have.
func ratios(of, to *cell) []float64 {
	if of == nil || to == nil {
		return nil
	}
	var all []float64
	for round, v := range of.Rounds {
		if base, ok := to.Rounds[round]; ok && base > 0 {
			all = append(all, v/base)
		}
	}
	slices.Sort(all)
	return all
}

// highest returns the highest rate that holds, 0 if none does. It doubles or halves the
// first rate and then bisects. A rate that fails is tried once more, because a single
// failure may be noise of the machine.
func highest(start float64, steps int, holds func(rate float64) bool) float64 {
	twice := func(rate float64) bool {
		if holds(rate) {
			return true
		}
		return holds(rate)
	}
	low, high := bracket(start, twice)
	for range steps {
		if low == 0 || low == high {
			break
		}
		middle := math.Sqrt(low * high)
		if twice(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// bracket returns a rate for which holds is true, and twice that rate, for which holds is
// false. It gives up after six steps.
func bracket(start float64, holds func(rate float64) bool) (low, high float64) {
	if holds(start) {
		for low = start; low < start*64; low *= 2 {
			if !holds(low * 2) {
				return low, low * 2
			}
		}
		return low, low
	}
	for high = start; high > start/64; high /= 2 {
		if holds(high / 2) {
			return high / 2, high
		}
	}
	return 0, high
}
