package main

import (
	"fmt"
	"math"
	"slices"
)

// figure is a quantity of a report that a goal or a limit applies to.
type figure struct {
	name string
	unit string                    // "×" for a ratio
	of   func(r *report) []float64 // its values, one of each round; empty if it was not measured
}

// goal is the maximum of a figure.
type goal struct {
	figure
	most float64
}

// verdict is a goal and what was measured.
type verdict struct {
	goal
	Value     float64 // the median of the rounds
	Low, High float64
	Measured  bool
	Held      bool
}

func judge(r *report, all []goal) []verdict {
	var rows []verdict
	for _, g := range all {
		v := verdict{goal: g}
		if values := g.of(r); len(values) > 0 {
			v.Measured, v.Value, v.Low, v.High = true, median(values), slices.Min(values), slices.Max(values)
		}
		v.Held = v.Measured && v.Value <= g.most
		rows = append(rows, v)
	}
	return rows
}

// mayBeNoise reports whether another run may hold the goal. A failed answer is never noise.
func (v verdict) mayBeNoise() bool { return !v.Held && v.Measured && v.most > 0 }

// better returns the verdicts of two runs: a goal that may be missed by noise is held if
// one of them holds it.
func better(first, second []verdict) []verdict {
	rows := slices.Clone(first)
	for i, v := range second {
		if rows[i].mayBeNoise() && v.Measured && v.Value < rows[i].Value || rows[i].Held && v.Measured && v.most == 0 {
			rows[i] = v
		}
	}
	return rows
}

func (v verdict) String() string {
	word := "failed"
	if v.Held {
		word = "passed"
	}
	if !v.Measured {
		return fmt.Sprintf("%s  %s: no figure", word, v.name)
	}
	return fmt.Sprintf("%s  %s: %s, at most %s", word, v.name, v.measured(), withUnit(v.most, v.unit))
}

// measured formats the median with the range of the rounds.
func (v verdict) measured() string {
	text := withUnit(v.Value, v.unit)
	if v.Low == v.High {
		return text
	}
	if v.unit == "×" {
		return fmt.Sprintf("%s (%.2f–%.2f)", text, v.Low, v.High)
	}
	return fmt.Sprintf("%s (%s–%s)", text, short(v.Low), short(v.High))
}

// withUnit formats a number with its unit.
func withUnit(x float64, unit string) string {
	if unit == "×" {
		return fmt.Sprintf("%.2f ×", x)
	}
	return fmt.Sprintf("%s %s", short(x), unit)
}

// short formats a number with three significant digits, and as an integer from 100 on.
func short(x float64) string {
	switch size := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case size == math.Trunc(size) && size < 1000:
		return fmt.Sprintf("%.0f", x)
	case size < 0.1:
		return fmt.Sprintf("%.3f", x)
	case size < 10:
		return fmt.Sprintf("%.2f", x)
	case size < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return thousands(x)
}

// thousands formats 1234567 as 1,234,567.
func thousands(x float64) string {
	digits := fmt.Sprintf("%.0f", math.Abs(x))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if x < 0 {
		return "-" + digits
	}
	return digits
}

func ratioOf(table, arm string) func(*report) []float64 { return ratioAt(table, arm, 0) }

func ratioAt(table, arm string, x float64) func(*report) []float64 {
	return func(r *report) []float64 { return r.ratios(table, arm, x) }
}

func valueOf(table, arm string, x float64) func(*report) []float64 {
	return func(r *report) []float64 { return r.cell(table, arm, x).values() }
}

// lastOf returns the values in the last column.
func lastOf(table, arm string) func(*report) []float64 {
	return func(r *report) []float64 { return r.cell(table, arm, last(r.columns(table))).values() }
}

// inTime returns the largest number of paced streams whose events arrived in time on all
// arms, or the smallest number if there is none. On a full machine the slowest arm
// handles the most events in one read and looks cheapest.
func inTime(r *report, arms ...string) (float64, bool) {
	xs := r.columns("paced")
	for _, x := range slices.Backward(xs) {
		late := slices.ContainsFunc(arms, func(arm string) bool {
			share, ok := r.value("paced-delivered", arm, x)
			return !ok || share < 97
		})
		if !late {
			return x, true
		}
	}
	if len(xs) == 0 {
		return 0, false
	}
	return xs[0], true
}
