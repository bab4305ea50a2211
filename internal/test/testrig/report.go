package testrig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Check is the result of one check.
type Check struct {
	Name    string  `json:"name"`
	Passed  bool    `json:"passed"`
	Skipped bool    `json:"skipped,omitempty"` // not run: see Skip
	Missed  bool    `json:"missed,omitempty"`  // passed, and a goal was missed: see Figures
	Detail  string  `json:"detail,omitempty"`  // the measurement, or the problems
	Seconds float64 `json:"seconds"`
}

// Report collects the checks of a run and prints each as it comes.
type Report struct {
	Out   io.Writer
	JSON  bool                     // print one JSON document at the end instead of lines
	Only  *regexp.Regexp           // run the checks that match; nil runs all
	Quiet func(name string) bool   // do not print these when they pass; nil prints all
	Again func(name string) string // the command that repeats a check; nil prints none
	Goals bool                     // compare figures with their goals: see Figures

	mu     sync.Mutex
	checks []Check
	began  time.Time
	whole  *Report // that this one is a part of, or nil
}

// maxProblems is the number of problems that a failed check lists.
const maxProblems = 12

// NewReport returns a report that prints to out.
func NewReport(out io.Writer) *Report { return &Report{Out: out, began: time.Now()} }

// Wants reports whether a check is to be run.
func (r *Report) Wants(name string) bool { return r.Only == nil || r.Only.MatchString(name) }

// Fail records a failed check.
func (r *Report) Fail(name, detail string, took time.Duration) {
	r.add(Check{Name: name, Detail: detail, Seconds: took.Seconds()})
}

// Check records a check. It passes if all problems are empty.
func (r *Report) Check(name, measured string, began time.Time, problems ...string) {
	problems = slices.DeleteFunc(slices.Clone(problems), func(s string) bool { return s == "" })
	if len(problems) == 0 {
		r.add(Check{Name: name, Passed: true, Detail: measured, Seconds: time.Since(began).Seconds()})
		return
	}
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	if measured != "" {
		problems = append(problems, "measured: "+measured)
	}
	r.Fail(name, strings.Join(problems, "\n"), time.Since(began))
}

// Figures records a check with figures that a busy machine stretches: times, and what
// depends on them. Like Check, it fails if there is a problem. A missed goal is no problem:
// it is recorded with the load of the machine since cpu was read, and only if r.Goals is set.
func (r *Report) Figures(name, measured string, began time.Time, cpu CPUTime, goals []string, problems ...string) {
	goals = slices.DeleteFunc(slices.Clone(goals), func(s string) bool { return s == "" })
	if !r.Goals || len(goals) == 0 || slices.ContainsFunc(problems, func(s string) bool { return s != "" }) {
		r.Check(name, measured, began, problems...)
		return
	}
	measured = fmt.Sprintf("%s; goal missed: %s (%s)", measured, strings.Join(goals, "; "), cpu.Load())
	r.add(Check{Name: name, Passed: true, Missed: true, Detail: measured, Seconds: time.Since(began).Seconds()})
}

// Skip records a check that this machine cannot run, and why.
func (r *Report) Skip(name, why string) {
	r.add(Check{Name: name, Skipped: true, Detail: "not run: " + why})
}

func (r *Report) add(c Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, c)
	switch {
	case r.JSON, r.whole != nil:
	case c.Skipped:
		fmt.Fprintf(r.Out, "skip %s (%.1f s): %s\n", c.Name, c.Seconds, c.Detail)
	case !c.Passed:
		fmt.Fprintf(r.Out, "FAIL %s (%.1f s)\n     %s\n", c.Name, c.Seconds, strings.ReplaceAll(Clip(c.Detail, 3000), "\n", "\n     "))
		if r.Again != nil {
			fmt.Fprintf(r.Out, "     again: %s\n", r.Again(c.Name))
		}
	case c.Missed:
		fmt.Fprintf(r.Out, "goal %s (%.1f s): %s\n", c.Name, c.Seconds, c.Detail)
	case r.Quiet == nil || !r.Quiet(c.Name):
		fmt.Fprintf(r.Out, "ok   %s (%.1f s): %s\n", c.Name, c.Seconds, c.Detail)
	}
}

// Part returns a report for a part of the run. It prints progress and keeps its checks until
// Add adds them, so that a part which this machine has spoiled can be repeated.
func (r *Report) Part() *Report {
	return &Report{Out: r.Out, JSON: r.JSON, Only: r.Only, Quiet: r.Quiet, Goals: r.Goals, whole: r}
}

// Add adds the checks of a part and prints them.
func (r *Report) Add(part *Report) {
	for _, c := range part.Checks() {
		r.add(c)
	}
}

// Progress prints a line with the time since the start of the run.
func (r *Report) Progress(format string, args ...any) {
	if r.whole != nil {
		r.whole.Progress(format, args...)
		return
	}
	if r.JSON {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.Out, "%5.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// Checks returns the checks so far.
func (r *Report) Checks() []Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.checks)
}

// Count counts the passed and the failed checks with a prefix.
func (r *Report) Count(prefix string) (passed, failed int) {
	for _, c := range r.Checks() {
		switch {
		case !strings.HasPrefix(c.Name, prefix), c.Skipped:
		case c.Passed:
			passed++
		default:
			failed++
		}
	}
	return passed, failed
}

// Finish prints the last line of the run, or its JSON document, and returns the number
// of failed checks.
func (r *Report) Finish() (int, error) {
	passed, failed := r.Count("")
	if r.JSON {
		enc := json.NewEncoder(r.Out)
		enc.SetIndent("", "  ")
		return failed, enc.Encode(map[string]any{"passed": passed, "failed": failed, "results": r.Checks()})
	}
	line := fmt.Sprintf("%d passed, %d failed", passed, failed)
	if skipped := len(r.Checks()) - passed - failed; skipped > 0 {
		line += fmt.Sprintf(", %d not run: their lines say why", skipped)
	}
	if missed := Count(r.Checks(), func(c Check) bool { return c.Missed }); missed > 0 {
		line += fmt.Sprintf(", %d of the passed miss a goal", missed)
	}
	_, err := fmt.Fprintln(r.Out, line)
	return failed, err
}

// GoalMissed marks a check in the table that passed and missed a goal.
const GoalMissed = "passed, **goal missed**"

// Table returns the checks as a Markdown table, without the quiet ones.
func (r *Report) Table() string {
	rows := [][]string{{"check", "", "measured"}}
	for _, c := range r.Checks() {
		mark := "passed"
		switch {
		case c.Skipped:
			mark = "not run"
		case c.Missed:
			mark = GoalMissed
		case !c.Passed:
			mark = "**failed**"
		}
		if r.Quiet == nil || !r.Quiet(c.Name) {
			rows = append(rows, []string{"`" + c.Name + "`", mark, strings.NewReplacer("\n", "; ", "|", "\\|").Replace(Clip(c.Detail, 400))})
		}
	}
	return MarkdownTable(rows)
}

// MarkdownTable returns a table; the first row is its header.
func MarkdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		line := "| " + strings.Join(row, " | ") + " |\n"
		b.WriteString(strings.ReplaceAll(line, "|  |", "| |")) // an empty cell
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// Main runs a harness: it calls run, writes the sections into the page if there is one,
// prints the last line and exits. The code is 1 when a check has failed and 2 when the
// harness itself has.
func (r *Report) Main(owner string, page *string, run func(context.Context) error, sections func() map[string]string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err == nil && *page != "" {
		err = WritePage(*page, owner, sections())
	}
	failed := 0
	if err == nil {
		failed, err = r.Finish()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, owner+":", err)
		os.Exit(2)
	}
	os.Exit(min(failed, 1))
}

// WritePage replaces sections of a Markdown page. A section is the text between the
// comments "<!-- OWNER: NAME -->" and "<!-- OWNER: end of NAME -->".
func WritePage(file, owner string, sections map[string]string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(page)
	for name, section := range sections {
		head, _, tail, err := cutSection(text, owner, name)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		text = head + section + tail
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// ReadSection returns what stands between the marks of a section of a page.
func ReadSection(file, owner, name string) (string, error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	_, section, _, err := cutSection(string(page), owner, name)
	return section, err
}

// cutSection divides a page at the marks of a section, which stay with the text around them.
func cutSection(page, owner, name string) (head, section, tail string, err error) {
	begin, end := fmt.Sprintf("<!-- %s: %s -->\n", owner, name), fmt.Sprintf("<!-- %s: end of %s -->\n", owner, name)
	head, rest, found := strings.Cut(page, begin)
	section, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", "", "", fmt.Errorf("the marks of section %q are missing", name)
	}
	return head + begin, section, end + tail, nil
}

// When returns a problem if the condition holds, else "".
func When(wrong bool, format string, args ...any) string {
	if wrong {
		return fmt.Sprintf(format, args...)
	}
	return ""
}

// Unless returns a problem if the condition does not hold, else "".
func Unless(ok bool, format string, args ...any) string { return When(!ok, format, args...) }
