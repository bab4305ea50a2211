package main

import (
	"cmp"
	"math"
	"slices"
)

// median of some values; of an even number the mean of the two in the middle.
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

// percentile of sorted values, by the nearest rank.
func percentile[T cmp.Ordered](sorted []T, p float64) T {
	var zero T
	if len(sorted) == 0 {
		return zero
	}
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// ratios are those of the rounds that both have.
func ratios(of, to map[int]float64) []float64 {
	var all []float64
	for round, v := range of {
		if base, ok := to[round]; ok && base > 0 {
			all = append(all, v/base)
		}
	}
	slices.Sort(all)
	return all
}

// highest is the highest rate that holds: searched by doubling, or by halving where not
// even the first one holds, and then between the two by as many steps. A rate that
// fails is tried once more, because one hiccup of the machine says nothing about what
// can be carried. It is 0 if nothing holds.
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

// bracket finds a rate that holds and, a factor of two above it, one that does not. It
// gives up after six steps either way.
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
