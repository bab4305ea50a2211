package main

import "math"

// scale places values on a line of the picture.
type scale struct {
	from, to   float64 // values
	start, end float64 // places
	log        bool
}

func (s scale) at(v float64) float64 {
	from, to := s.from, s.to
	if s.log {
		from, to, v = math.Log10(from), math.Log10(to), math.Log10(max(v, s.from))
	}
	if to == from {
		return (s.start + s.end) / 2
	}
	return s.start + (v-from)/(to-from)*(s.end-s.start)
}

// ticks are round values: powers of ten, or about five steps.
func (s scale) ticks() []float64 {
	var all []float64
	if s.log {
		for v := s.from; v <= s.to*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := roundStep(s.to - s.from)
	for i := math.Ceil(s.from / step); i*step <= s.to*1.001; i++ {
		all = append(all, i*step)
	}
	return all
}

// roundStep is 1, 2 or 5 times a power of ten, so that there are four to ten steps.
func roundStep(length float64) float64 {
	if length <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(length)))
	switch {
	case length/power >= 5:
		return power
	case length/power >= 2:
		return power / 2
	}
	return power / 5
}

// ceil is the end of an axis that holds v: a whole number of steps.
func ceil(v float64) float64 {
	if v <= 0 {
		return 0
	}
	step := roundStep(v)
	return math.Ceil(v/step) * step
}
