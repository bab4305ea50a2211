package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// result is the outcome of one attack.
type result struct {
	Name     string   `json:"name"`
	Held     bool     `json:"held"`
	Open     string   `json:"open,omitempty"` // the known weakness, if the attack succeeded because of it
	Problems []string `json:"problems,omitempty"`
	Sent     string   `json:"sent,omitempty"` // only if it did not hold
	Got      string   `json:"got,omitempty"`
	Note     string   `json:"note,omitempty"`
	Seconds  float64  `json:"seconds"`
	unproven bool
	known    string // the weakness, also if the attack holds
}

func (r result) class() string { c, _, _ := strings.Cut(r.Name, "/"); return c }

// failed reports whether the result is a failure of the run.
func (r result) failed() bool { return !r.Held && r.Open == "" }

// report collects the results and prints what did not hold.
type report struct {
	out   io.Writer
	json  bool
	prove bool
	bin   string // for the command that repeats an attack
	began time.Time

	mu      sync.Mutex
	results []result
}

// maxShown limits the bytes of a request and of a response that are printed.
const maxShown = 1200

// add records an attack. With prove, an attack holds if its oracles found a problem.
func (r *report) add(a attack, e *evidence, took time.Duration) {
	one := result{Name: a.name, Held: len(e.problems) == 0, Problems: e.problems, Note: e.note, Seconds: took.Seconds(), unproven: a.unproven != "", known: a.known}
	switch {
	case r.prove && e.failed:
	case r.prove:
		one.Held = len(e.problems) > 0 || one.unproven
		one.Problems = []string{"the weak gateway withstands it, so nothing shows that its oracles can fail"}
	case a.known != "" && !one.Held:
		one.Open = a.known
	}
	if one.Held {
		one.Problems = nil
	} else {
		one.Sent, one.Got = testrig.Clip(e.sent, maxShown), testrig.Clip(e.got, maxShown)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, one)
	switch {
	case r.json:
	case one.Held:
	case one.Open != "":
		fmt.Fprintf(r.out, "open %s (%s): %s\n", one.Name, one.Open, testrig.Clip(strings.Join(one.Problems, "; "), 300))
	default:
		fmt.Fprintf(r.out, "FAIL %s\n     %s\n     sent: %q\n     got:  %q\n     again: %s\n", one.Name, strings.Join(one.Problems, "\n     "), one.Sent, one.Got, r.again(one.Name))
	}
}

// again returns the command that repeats an attack.
func (r *report) again(name string) string {
	how := "--bin " + r.bin
	if r.prove {
		how = "--prove"
	}
	return fmt.Sprintf("go run ./redteam %s --only '^%s$'", how, regexp.QuoteMeta(name))
}

// classes returns the names of the classes in the order of the alphabet.
func (r *report) classes() (names []string) {
	for _, one := range r.results {
		if !slices.Contains(names, one.class()) {
			names = append(names, one.class())
		}
	}
	slices.Sort(names)
	return names
}

// marks returns the known weaknesses of which attacks are marked.
func (r *report) marks() (names []string) {
	for _, one := range r.results {
		if one.known != "" && !r.prove && !slices.Contains(names, one.known) {
			names = append(names, one.known)
		}
	}
	slices.Sort(names)
	return names
}

// count counts the results that match.
func (r *report) count(match func(result) bool) int { return testrig.Count(r.results, match) }

// finish prints the classes and the last line, or a JSON document, and returns the exit
// code.
func (r *report) finish() (int, error) {
	tried := len(r.results)
	failed, open := r.count(result.failed), r.count(func(one result) bool { return one.Open != "" })
	code := min(failed, 1)
	if r.json {
		enc := json.NewEncoder(r.out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return code, enc.Encode(map[string]any{"attacks": tried, "held": tried - failed - open, "failed": failed, "open": open, "results": r.results})
	}
	held := map[bool]string{false: "held", true: "shown"}[r.prove]
	for _, class := range r.classes() {
		in := func(one result) bool { return one.class() == class }
		line := fmt.Sprintf("%-10s %4d tried, %4d %s", class, r.count(in), r.count(func(one result) bool { return in(one) && one.Held }), held)
		if n := r.count(func(one result) bool { return in(one) && one.Open != "" }); n > 0 {
			line += fmt.Sprintf(", %d open", n)
		}
		fmt.Fprintln(r.out, line)
	}
	for _, known := range r.marks() {
		in := func(one result) bool { return one.known == known }
		all, open := r.count(in), r.count(func(one result) bool { return in(one) && one.Open != "" })
		fmt.Fprintf(r.out, "%-10s %4d marked as open, %d of them hold\n", known, all, all-open)
	}
	_, err := fmt.Fprintf(r.out, "%.0f s\n%s\n", time.Since(r.began).Seconds(), r.lastLine(tried, failed, open))
	return code, err
}

func (r *report) lastLine(tried, failed, open int) string {
	unproven := r.count(func(one result) bool { return one.unproven })
	switch {
	case r.prove && failed == 0:
		return fmt.Sprintf("redteam: %d attacks, %d succeed on a weak gateway, %d cannot be shown on it", tried, tried-unproven, unproven)
	case r.prove:
		return fmt.Sprintf("redteam: %d attacks, %d are withstood by a weak gateway", tried, failed)
	case failed == 0 && open == 0:
		return fmt.Sprintf("redteam: %d attacks, all held", tried)
	case failed == 0:
		return fmt.Sprintf("redteam: %d attacks, %d held, %d open", tried, tried-open, open)
	}
	return fmt.Sprintf("redteam: %d attacks, %d failed, %d open", tried, failed, open)
}
