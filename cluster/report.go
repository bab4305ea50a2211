package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// result is one check.
type result struct {
	name   string
	passed bool
	detail string // what was measured, or what is wrong
	took   time.Duration
}

// report gathers results and prints them as they come.
type report struct {
	out   io.Writer
	began time.Time

	mu      sync.Mutex
	results []result
}

func (r *report) failed(name, detail string, took time.Duration) {
	r.add(result{name: name, detail: detail, took: took})
}

// check notes a check that holds where there is no complaint.
func (r *report) check(name, measured string, began time.Time, complaints ...string) {
	complaints = slices.DeleteFunc(slices.Clone(complaints), func(s string) bool { return s == "" })
	if len(complaints) == 0 {
		r.add(result{name: name, passed: true, detail: measured, took: time.Since(began)})
		return
	}
	if more := len(complaints) - maxComplaints; more > 0 {
		complaints = append(complaints[:maxComplaints], fmt.Sprintf("and %d more", more))
	}
	if measured != "" {
		complaints = append(complaints, "measured: "+measured)
	}
	r.failed(name, strings.Join(complaints, "\n"), time.Since(began))
}

// maxComplaints are as many as somebody reads.
const maxComplaints = 12

func (r *report) add(one result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, one)
	if one.passed {
		fmt.Fprintf(r.out, "ok   %s (%.1f s): %s\n", one.name, one.took.Seconds(), one.detail)
		return
	}
	fmt.Fprintf(r.out, "FAIL %s (%.1f s)\n     %s\n", one.name, one.took.Seconds(), strings.ReplaceAll(clip(one.detail, 3000), "\n", "\n     "))
}

// progress prints a line on how far the run is.
func (r *report) progress(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%5.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// finish prints the table and the last line, and returns the number of failures.
func (r *report) finish() (failed int) {
	fmt.Fprintf(r.out, "\n%s\n", resultTable(r.results))
	for _, one := range r.results {
		if !one.passed {
			failed++
		}
	}
	fmt.Fprintf(r.out, "%d passed, %d failed\n", len(r.results)-failed, failed)
	return failed
}

// unless is a complaint where something does not hold.
func unless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
