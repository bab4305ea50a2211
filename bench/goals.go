package main

import (
	"fmt"
	"math"
	"slices"
)

// figure is one number of a report that is held to something.
type figure struct {
	name string
	unit string // "×" for a ratio
	of   func(r *report) (float64, bool)
}

// goal is the most that a figure may be.
type goal struct {
	figure
	most float64
	why  string // of a limit: where the number comes from
}

// verdict is a goal and what was measured.
type verdict struct {
	goal
	Value    float64
	Measured bool
	Held     bool
}

func judge(r *report, all []goal) []verdict {
	var rows []verdict
	for _, g := range all {
		v := verdict{goal: g}
		v.Value, v.Measured = g.of(r)
		v.Held = v.Measured && v.Value <= g.most
		rows = append(rows, v)
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
	return fmt.Sprintf("%s  %s: %s (at most %s)", word, v.name, withUnit(v.Value, v.unit), withUnit(v.most, v.unit))
}

// withUnit writes a number with as many digits as it deserves.
func withUnit(x float64, unit string) string {
	if unit == "×" {
		return fmt.Sprintf("%.2f ×", x)
	}
	return fmt.Sprintf("%s %s", short(x), unit)
}

// short has three digits that count, and whole numbers from 100 on.
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

// thousands writes 1234567 as 1,234,567.
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

func ratioOf(table, arm string) func(*report) (float64, bool) {
	return func(r *report) (float64, bool) { return r.ratio(table, arm, 0) }
}

func valueOf(table, arm string, x float64) func(*report) (float64, bool) {
	return func(r *report) (float64, bool) { return r.value(table, arm, x) }
}

// memoryOf is what a stream takes with as many open as were opened on this machine.
func memoryOf(arm string) func(*report) (float64, bool) { return lastOf("memory", arm) }

// lastOf is the value in the last column.
func lastOf(table, arm string) func(*report) (float64, bool) {
	return func(r *report) (float64, bool) { return r.value(table, arm, last(r.columns(table))) }
}

// The figures that are held to something. Ratios are to the bare proxy of the same run.
func requestRatio() figure {
	return figure{"CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("request-2k-1k", ours)}
}

func burstRatio() figure {
	return figure{"CPU per event, burst of 200, verbatim", "×", ratioOf("burst", ours)}
}

func pacedRatio() figure {
	return figure{"CPU per event, paced streams, as many as came in time, verbatim", "×", func(r *report) (float64, bool) {
		x, ok := inTime(r, bareChat, ours)
		if !ok {
			return 0, false
		}
		return r.ratio("paced", ours, x)
	}}
}

// inTime is the largest number of paced streams whose events came in time for all of
// these. With more of them the machine is full, and whoever is furthest behind handles
// the most events at once and looks cheapest. Where none did, it is the smallest.
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

func chatEvent() figure {
	return figure{"CPU per event, burst of 200, Messages client on Chat upstream", "µs", valueOf("burst", oursMessages, 0)}
}

func chatEventRatio() figure {
	return figure{"the same to bare, Messages client on Chat upstream", "×", ratioOf("burst", oursMessages)}
}

func answersEvent() figure {
	return figure{"CPU per event, burst of 200, Responses client on Messages upstream", "µs", valueOf("burst", oursAnswers, 0)}
}

func answersEventRatio() figure {
	return figure{"the same to bare, Responses client on Messages upstream", "×", ratioOf("burst", oursAnswers)}
}

// latencyRatio is no figure where others used the machine: it would be theirs.
func latencyRatio() figure {
	return figure{"added latency, p99, at half of bare's highest rate", "×", func(r *report) (float64, bool) {
		if r.Busy > quiet {
			return 0, false
		}
		return r.ratio("half-p99", ours, 0)
	}}
}

func verbatimMemory() figure {
	return figure{"memory per open stream, verbatim", "KiB", memoryOf(ours)}
}

func chatMemory() figure {
	return figure{"memory per open stream, Messages client on Chat upstream", "KiB", memoryOf(oursMessages)}
}

func answersMemory() figure {
	return figure{"memory per open stream, Responses client on Messages upstream", "KiB", memoryOf(oursAnswers)}
}

func startTime() figure {
	return figure{"start to ready", "ms", valueOf("start", ours, 10)}
}

func modelsRatio() figure {
	return figure{"CPU per request with 100,000 models, to 10 models", "×", func(r *report) (float64, bool) { return r.growth("models", ours) }}
}

func requestAllocs() figure {
	return figure{"allocations per request, 2 KB in and 1 KB out, verbatim", "allocations", valueOf("request-2k-1k-allocs", ours, 0)}
}

func chatEventAllocs() figure {
	return figure{"allocations per event, burst of 200, Messages client on Chat upstream", "allocations", valueOf("burst-allocs", oursMessages, 0)}
}

func failedAnswers() figure {
	return figure{"answers that failed", "answers", func(r *report) (float64, bool) {
		failed, asked := r.failures(ours)
		return float64(failed), asked > 0
	}}
}

// goals are what we want to reach.
func goals() []goal {
	return append([]goal{
		{figure: requestRatio(), most: 1.10},
		{figure: burstRatio(), most: 1.5},
		{figure: pacedRatio(), most: 1.10},
		{figure: chatEvent(), most: 6},
		{figure: chatEventRatio(), most: 4},
		{figure: answersEvent(), most: 6},
		{figure: answersEventRatio(), most: 4},
		{figure: latencyRatio(), most: 1.25},
		{figure: verbatimMemory(), most: 48},
		{figure: chatMemory(), most: 64},
		{figure: answersMemory(), most: 64},
		{figure: startTime(), most: 200},
		{figure: modelsRatio(), most: 1.05},
		{figure: failedAnswers(), most: 0},
	}, storeGoals()...)
}
