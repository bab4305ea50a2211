package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// sampleReport has a figure of every kind.
func sampleReport() *report {
	r := &report{Machine: machine{Machine: testrig.Machine{CPU: "A CPU", Cores: 2, Memory: 8, Kernel: "6.1"}, Go: "go1.26"}}
	add := func(table, armName, base string, x float64, values ...float64) *cell {
		c := r.of(table, &arm{name: armName, base: base}, x)
		for i, v := range values {
			c.Rounds[i] = v
		}
		c.Asked = 1000 * len(values)
		return c
	}
	add("request-2k-1k", bareChat, bareChat, 0, 100, 200, 110)
	add("request-2k-1k", ours, bareChat, 0, 105, 220, 121)
	add("burst", bareChat, bareChat, 0, 2, 2.5, 3)
	add("burst", ours, bareChat, 0, 4, 4, 4).Failed = 2
	for _, lane := range []string{bareChat, ours} {
		add("paced", lane, bareChat, 100, 20, 22)
		add("paced", lane, bareChat, 1000, 10, 14)
		add("paced-delivered", lane, bareChat, 100, 100, 100)
		add("paced-delivered", lane, bareChat, 1000, 99, 98)
		add("memory", lane, bareChat, 1000, 60)
		add("memory", lane, bareChat, 9000, 50)
		add("memory-total", lane, bareChat, 1000, 100)
		add("memory-total", lane, bareChat, 9000, 500)
	}
	add("models", ours, ours, 10, 100, 100, 100)
	add("models", ours, ours, 100000, 103, 104, 102)
	add("log-line", ours, bareChat, 0, 600)
	return r
}

func figureNamed(t *testing.T, name string) figure {
	t.Helper()
	for _, s := range standards() {
		if s.name == name {
			return s.figure
		}
	}
	t.Fatalf("there is no figure %q", name)
	return figure{}
}

func TestFigures(t *testing.T) {
	r := sampleReport()
	for name, c := range map[string]struct {
		figure figure
		want   float64
	}{
		"request": {figureNamed(t, "CPU per request, 2 KB in and 1 KB out, verbatim"), 1.1},
		"burst":   {figureNamed(t, "CPU per event, burst of 200, verbatim"), 1.6},
		"memory":  {figureNamed(t, "memory per open stream, verbatim"), 50},
		"models":  {figureNamed(t, "CPU per request with 100,000 models, to 10 models"), 1.03},
		"failed":  {figureNamed(t, "answers that failed"), 2},
	} {
		if got := median(c.figure.of(r)); math.IsNaN(got) || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
	if values := figureNamed(t, "added latency, p99, at half of bare's highest rate").of(r); values != nil {
		t.Errorf("a figure that was not measured has the values %v", values)
	}
}

// A column in which the machine was full does not count.
func TestPacedFiguresAreOfStreamsThatCameInTime(t *testing.T) {
	r := sampleReport()
	if x, ok := inTime(r, bareChat, ours); !ok || x != 1000 {
		t.Errorf("all came in time, and %v streams count", x)
	}
	r.cell("paced-delivered", ours, 1000).Rounds = map[int]float64{0: 80, 1: 99, 2: 70}
	if x, ok := inTime(r, bareChat, ours); !ok || x != 100 {
		t.Errorf("with 1,000 streams events were late, and %v streams count", x)
	}
	r.cell("paced-delivered", bareChat, 100).Rounds = map[int]float64{0: 60}
	if x, ok := inTime(r, bareChat, ours); !ok || x != 100 {
		t.Errorf("where all are late, %v streams count", x)
	}
	if _, ok := inTime(&report{}, ours); ok {
		t.Error("there are streams where nothing was measured")
	}
}

// A latency that was measured beside other work is shown and not judged.
func TestLatencyIsNotJudgedOnABusyMachine(t *testing.T) {
	r := sampleReport()
	r.of("half-p99", &arm{name: bareChat, base: bareChat}, 0).Rounds[0] = 2
	r.of("half-p99", &arm{name: ours, base: bareChat}, 0).Rounds[0] = 1
	if values := figureNamed(t, "added latency, p99, at half of bare's highest rate").of(r); !slices.Equal(values, []float64{0.5}) {
		t.Errorf("on a quiet machine it is %v", values)
	}
	r.Busy = 0.5
	if values := figureNamed(t, "added latency, p99, at half of bare's highest rate").of(r); values != nil {
		t.Errorf("on a busy machine it is %v", values)
	}
}

// What was not measured is not held: a part that quietly did nothing must not pass.
func TestJudge(t *testing.T) {
	r := sampleReport()
	for _, c := range []struct {
		goal           goal
		measured, held bool
	}{
		{goal{figure: figureNamed(t, "CPU per request, 2 KB in and 1 KB out, verbatim"), most: 1.2}, true, true},
		{goal{figure: figureNamed(t, "CPU per event, burst of 200, verbatim"), most: 1.5}, true, false},
		{goal{figure: figureNamed(t, "added latency, p99, at half of bare's highest rate"), most: 99}, false, false},
	} {
		v := judge(r, []goal{c.goal})[0]
		if v.Measured != c.measured || v.Held != c.held {
			t.Errorf("%v", v)
		}
	}
}

func TestEveryLimitHasItsReason(t *testing.T) {
	for _, s := range standards() {
		if s.limit != none && len(s.why) < 20 {
			t.Errorf("%s: the reason is %q", s.name, s.why)
		}
	}
	if len(limits()) < 8 {
		t.Errorf("there are only %d limits", len(limits()))
	}
}

func TestTables(t *testing.T) {
	r := sampleReport()
	grid := findTable("burst").grid(r)
	if got := strings.Join(grid[2], " | "); got != "isogloss | 4 (4–4) | 2 of 3,000 | 1.60 (1.33–2.00)" {
		t.Errorf("the row is %q", got)
	}
	grid = findTable("paced").grid(r)
	if got := strings.Join(grid[0], " | "); got != "µs | 100 open | 1,000 open | failed | × bare" {
		t.Errorf("the header is %q", got)
	}
	grid = findTable("models").grid(r)
	if got := grid[1][len(grid[1])-1]; got != "1.03 (1.02–1.04)" {
		t.Errorf("models grew by %q", got)
	}
	if findTable("rate").grid(r) != nil {
		t.Error("a table without figures is shown")
	}
}

func TestSectionsNameTables(*testing.T) {
	for _, s := range sections() {
		for _, key := range s.tables {
			findTable(key) // panics if there is none
		}
	}
}

func TestPageAndDataAreWritten(t *testing.T) {
	dir := t.TempDir()
	r := sampleReport()
	if err := writePage(dir, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| CPU per event, burst of 200, verbatim | ≤ 1.15 × | 1.60 × (1.33–2.00) | **no** |", "no figure", "(performance/memory-of-streams.svg)", "1 million requests/s", strings.TrimSpace(notes)[:20]} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
	again, err := readReport(filepath.Join(dir, "performance", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page(again), text) {
		t.Error("the page from the saved data is another")
	}
}

// TestBetter checks that a second run corrects noise, and never failed answers.
func TestBetter(t *testing.T) {
	row := func(most, value float64) verdict {
		return verdict{goal: goal{most: most}, Value: value, Measured: true, Held: value <= most}
	}
	for name, c := range map[string]struct{ first, second, want verdict }{
		"noise":                    {row(2, 3), row(2, 1), row(2, 1)},
		"above twice":              {row(2, 3), row(2, 4), row(2, 3)},
		"held at first":            {row(2, 1), row(2, 3), row(2, 1)},
		"answers failed at first":  {row(0, 5), row(0, 0), row(0, 5)},
		"answers failed at second": {row(0, 0), row(0, 5), row(0, 5)},
		"no figure at second":      {row(2, 3), verdict{goal: goal{most: 2}}, row(2, 3)},
	} {
		got := better([]verdict{c.first}, []verdict{c.second})[0]
		if got.Value != c.want.Value || got.Held != c.want.Held {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
