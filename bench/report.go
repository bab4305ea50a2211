package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// report holds everything that was measured.
type report struct {
	When    time.Time `json:"when"`
	Commit  string    `json:"commit"`
	Took    float64   `json:"took_seconds"`
	Quick   bool      `json:"quick"`
	Busy    float64   `json:"busy_share"` // of the machine, used by others; the most that was seen
	Machine machine   `json:"machine"`
	Cells   []*cell   `json:"cells"`
	Remarks []string  `json:"remarks"` // what was left out, and why
}

type machine struct {
	testrig.Machine
	Go      string `json:"go"`
	Nginx   string `json:"nginx"`
	Version string `json:"isogloss"`
}

// cell is one figure of one arm: its value in each round.
type cell struct {
	Table  string          `json:"table"`
	Arm    string          `json:"arm"`
	Base   string          `json:"base"` // the arm that it is compared with
	X      float64         `json:"x"`    // where a table has several columns
	Rounds map[int]float64 `json:"rounds"`
	Asked  int             `json:"asked"`
	Failed int             `json:"failed"`
	Why    string          `json:"why,omitempty"` // of the first failure
}

// values returns the rounds' values in ascending order; none of a nil cell.
func (c *cell) values() []float64 {
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Values(c.Rounds))
}

func (c *cell) median() float64 { return median(c.values()) }

// spread returns the lowest and the highest round.
func (c *cell) spread() (low, high float64) {
	v := c.values()
	if len(v) == 0 {
		return 0, 0
	}
	return v[0], v[len(v)-1]
}

// cell returns a cell, nil if it was not measured.
func (r *report) cell(table, arm string, x float64) *cell {
	for _, c := range r.Cells {
		if c.Table == table && c.Arm == arm && c.X == x {
			return c
		}
	}
	return nil
}

// of returns a cell and creates it if needed.
func (r *report) of(table string, a *arm, x float64) *cell {
	if c := r.cell(table, a.name, x); c != nil {
		return c
	}
	c := &cell{Table: table, Arm: a.name, Base: a.base, X: x, Rounds: map[int]float64{}}
	r.Cells = append(r.Cells, c)
	return c
}

// value returns the median of a cell.
func (r *report) value(table, arm string, x float64) (float64, bool) {
	c := r.cell(table, arm, x)
	if c == nil || len(c.Rounds) == 0 {
		return 0, false
	}
	return c.median(), true
}

// ratios returns the ratios of a cell to its base arm, one of each round.
func (r *report) ratios(table, arm string, x float64) []float64 {
	c := r.cell(table, arm, x)
	if c == nil {
		return nil
	}
	return ratios(c, r.cell(table, c.Base, x))
}

// growth returns the ratios of the last column to the first, of one arm.
func (r *report) growth(table, arm string) []float64 {
	xs := r.columns(table)
	if len(xs) < 2 {
		return nil
	}
	return ratios(r.cell(table, arm, last(xs)), r.cell(table, arm, first(xs)))
}

// columns returns the values of x in a table.
func (r *report) columns(table string) []float64 {
	seen := map[float64]bool{}
	for _, c := range r.Cells {
		if c.Table == table {
			seen[c.X] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// arms returns the arms of a table in the order of measurement.
func (r *report) arms(table string) []string {
	var all []string
	for _, c := range r.Cells {
		if c.Table == table && !slices.Contains(all, c.Arm) {
			all = append(all, c.Arm)
		}
	}
	return all
}

// failures counts the failed responses of the arms with a prefix.
func (r *report) failures(prefix string) (failed, asked int) {
	for _, c := range r.Cells {
		if strings.HasPrefix(c.Arm, prefix) {
			failed += c.Failed
			asked += c.Asked
		}
	}
	return failed, asked
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

func (r *report) saveJSON(path string) error {
	f, err := os.Create(path) //nolint:gosec // the user named it
	if err != nil {
		return err
	}
	if err := r.writeJSON(f); err != nil {
		return err
	}
	return f.Close()
}

func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user named it
	if err != nil {
		return nil, err
	}
	r := &report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w; is it what --json wrote?", filepath.Base(path), err)
	}
	return r, nil
}

// thisMachine describes the machine; the caller adds what it runs.
func thisMachine() machine {
	return machine{Machine: testrig.ThisMachine(), Go: runtime.Version()}
}

// busyShare returns the CPU share of other processes, measured while the bench is idle.
func busyShare(while time.Duration) float64 {
	before := testrig.ReadCPUTime()
	time.Sleep(while)
	return before.Busy()
}
