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
)

// result is one check.
type result struct {
	Name   string  `json:"name"`
	Passed bool    `json:"passed"`
	Detail string  `json:"detail,omitempty"` // what was measured, or what is wrong
	Took   float64 `json:"seconds"`
}

// report gathers results, and prints failures as they come.
type report struct {
	out  io.Writer
	json bool
	only *regexp.Regexp

	mu      sync.Mutex
	results []result
	began   time.Time
}

// wants reports whether a check was asked for.
func (r *report) wants(name string) bool { return r.only == nil || r.only.MatchString(name) }

// passed notes a check that holds, with what was measured.
func (r *report) passed(name, detail string, took time.Duration) {
	r.add(result{Name: name, Passed: true, Detail: detail, Took: took.Seconds()})
}

// failed notes one that does not.
func (r *report) failed(name, detail string, took time.Duration) {
	r.add(result{Name: name, Detail: detail, Took: took.Seconds()})
}

// check notes a check that holds where there is no complaint.
func (r *report) check(name, measured string, began time.Time, complaints ...string) {
	complaints = slices.DeleteFunc(complaints, func(s string) bool { return s == "" })
	if len(complaints) == 0 {
		r.passed(name, measured, time.Since(began))
		return
	}
	if measured != "" {
		complaints = append(complaints, "measured: "+measured)
	}
	r.failed(name, strings.Join(complaints, "\n"), time.Since(began))
}

func (r *report) add(one result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, one)
	if r.json {
		return
	}
	switch {
	case !one.Passed:
		fmt.Fprintf(r.out, "FAIL %s\n     %s\n", one.Name, strings.ReplaceAll(clip(one.Detail, 1500), "\n", "\n     "))
	case !strings.HasPrefix(one.Name, "board/") && !strings.HasPrefix(one.Name, "cancel/"):
		fmt.Fprintf(r.out, "ok   %s (%.1f s): %s\n", one.Name, one.Took, one.Detail)
	}
}

// progress prints a line on how far the run is.
func (r *report) progress(format string, args ...any) {
	if r.json {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%5.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// counts are the passed and the failed.
func (r *report) counts(match func(string) bool) (passed, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.results {
		switch {
		case !match(one.Name):
		case one.Passed:
			passed++
		default:
			failed++
		}
	}
	return passed, failed
}

// finish prints the end of the run and returns the number of failures.
func (r *report) finish() (int, error) {
	passed, failed := r.counts(func(string) bool { return true })
	if r.json {
		enc := json.NewEncoder(r.out)
		enc.SetIndent("", "  ")
		return failed, enc.Encode(object{"passed": passed, "failed": failed, "results": r.results})
	}
	fmt.Fprintf(r.out, "%d passed, %d failed\n", passed, failed)
	return failed, nil
}
