package conform

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report collects results.
type Report struct {
	Results []Result
}

// Passed returns the number of cells that passed.
func (r *Report) Passed() int { return r.count(func(x Result) bool { return x.Passed() }) }

// Failed returns the number of cells that failed.
func (r *Report) Failed() int { return len(r.Results) - r.Passed() }

func (r *Report) count(is func(Result) bool) int {
	n := 0
	for _, x := range r.Results {
		if is(x) {
			n++
		}
	}
	return n
}

// share returns "passed/all" of the matching results.
func (r *Report) share(is func(Result) bool) string {
	all := r.count(is)
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", r.count(func(x Result) bool { return is(x) && x.Passed() }), all)
}

// WriteTable writes the results of cells and groups and the totals.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\nclient \\ upstream   ")
	for _, up := range Dialects() {
		fmt.Fprintf(&b, "%-22s", up)
	}
	b.WriteString("\n")
	for _, client := range Dialects() {
		fmt.Fprintf(&b, "%-20s", client)
		for _, up := range Dialects() {
			in := func(stream bool) string {
				return r.share(func(x Result) bool { return x.Cell == Cell{client, up, stream} })
			}
			fmt.Fprintf(&b, "%-22s", in(true)+" "+in(false))
		}
		b.WriteString("\n")
	}
	b.WriteString("(streamed, whole)\n\n")
	for _, g := range r.groups() {
		fmt.Fprintf(&b, "%-20s%s\n", g, r.share(func(x Result) bool { return x.Case.Group() == g }))
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed\n", r.Passed(), r.Failed())
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) groups() []string {
	var out []string
	for _, x := range r.Results {
		if g := x.Case.Group(); !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	slices.Sort(out)
	return out
}

// Failure is a failed cell in the JSON report.
type Failure struct {
	Case     string   `json:"case"`
	IDs      []string `json:"ids,omitempty"`
	Client   Dialect  `json:"client"`
	Upstream Dialect  `json:"upstream"`
	Stream   bool     `json:"stream"`
	Problems []string `json:"problems"`
}

// Summary is the JSON report.
type Summary struct {
	Passed   int               `json:"passed"`
	Failed   int               `json:"failed"`
	Cells    map[string]string `json:"cells"`
	Groups   map[string]string `json:"groups"`
	Failures []Failure         `json:"failures"`
}

// Summary returns the JSON report.
func (r *Report) Summary() Summary {
	s := Summary{Passed: r.Passed(), Failed: r.Failed(), Cells: map[string]string{}, Groups: map[string]string{}, Failures: []Failure{}}
	for _, x := range r.Results {
		cell, group := x.Cell, x.Case.Group()
		s.Cells[cell.String()] = r.share(func(y Result) bool { return y.Cell == cell })
		s.Groups[group] = r.share(func(y Result) bool { return y.Case.Group() == group })
		if !x.Passed() {
			s.Failures = append(s.Failures, Failure{x.Case.Name, x.Case.IDs, cell.Client, cell.Upstream, cell.Stream, x.Problems})
		}
	}
	return s
}
