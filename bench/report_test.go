package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sampleReport has a figure of every kind.
func sampleReport() *report {
	r := &report{Machine: machine{CPU: "A CPU", Cores: 2, Memory: 8, Kernel: "6.1", Go: "go1.26"}}
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
	}
	add("models", ours, ours, 10, 100, 100, 100)
	add("models", ours, ours, 100000, 103, 104, 102)
	add("log-line", ours, bareChat, 0, 600)
	return r
}

func TestFigures(t *testing.T) {
	r := sampleReport()
	for name, c := range map[string]struct {
		figure figure
		want   float64
	}{
		"request": {requestRatio(), 1.1},
		"burst":   {burstRatio(), 1.6},
		"memory":  {verbatimMemory(), 50},
		"models":  {modelsRatio(), 1.03},
		"failed":  {failedAnswers(), 2},
	} {
		got, ok := c.figure.of(r)
		if !ok || got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: %v, %v; want %v", name, got, ok, c.want)
		}
	}
	if _, ok := latencyRatio().of(r); ok {
		t.Error("a figure that was not measured has a value")
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
	if v, ok := latencyRatio().of(r); !ok || v != 0.5 {
		t.Errorf("on a quiet machine it is %v, %v", v, ok)
	}
	r.Busy = 0.5
	if v, ok := latencyRatio().of(r); ok {
		t.Errorf("on a busy machine it is %v", v)
	}
}

func TestParseTicks(t *testing.T) {
	if busy, all := parseTicks("cpu  10 1 5 80 4 0 0 0 7 0"); busy != 16 || all != 100 {
		t.Errorf("%v of %v", busy, all)
	}
}

// What was not measured is not held: a part that quietly did nothing must not pass.
func TestJudge(t *testing.T) {
	r := sampleReport()
	for _, c := range []struct {
		goal           goal
		measured, held bool
	}{
		{goal{figure: requestRatio(), most: 1.2}, true, true},
		{goal{figure: burstRatio(), most: 1.5}, true, false},
		{goal{figure: latencyRatio(), most: 99}, false, false},
	} {
		v := judge(r, []goal{c.goal})[0]
		if v.Measured != c.measured || v.Held != c.held {
			t.Errorf("%v", v)
		}
	}
}

func TestEveryLimitHasItsReason(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range limits() {
		if len(l.why) < 20 || l.most < 0 {
			t.Errorf("%s: the reason is %q", l.name, l.why)
		}
		seen[l.name] = true
	}
	if len(seen) < 8 {
		t.Errorf("there are only %d limits", len(seen))
	}
}

func TestTables(t *testing.T) {
	r := sampleReport()
	grid := findTable("burst").grid(r)
	if got := strings.Join(grid[2], " | "); got != "isogloss | 4 (4–4) | 2 of 3,000 | 1.60" {
		t.Errorf("the row is %q", got)
	}
	grid = findTable("paced").grid(r)
	if got := strings.Join(grid[0], " | "); got != "µs | 100 open | 1,000 open | failed | × bare" {
		t.Errorf("the header is %q", got)
	}
	grid = findTable("models").grid(r)
	if got := grid[1][len(grid[1])-1]; got != "1.03" {
		t.Errorf("models grew by %q", got)
	}
	if findTable("rate").grid(r) != nil {
		t.Error("a table without figures is shown")
	}
}

// Every table that a section names exists, and every plot that it names is drawn.
func TestSectionsNameWhatThereIs(t *testing.T) {
	r := sampleReport()
	for _, table := range tables() {
		a := &arm{name: ours, base: bareChat}
		for x := range 3 {
			r.of(table.key, a, float64(x+1)).Rounds[0] = 1
			if table.column == "" {
				r.of(table.key, a, 0).Rounds[0] = 1
			}
		}
	}
	drawn := map[string]bool{}
	for _, p := range pictures(r) {
		drawn[p.file] = true
	}
	for _, s := range sections() {
		for _, key := range s.tables {
			findTable(key) // panics if there is none
		}
		for _, file := range s.plots {
			if !drawn[file] {
				t.Errorf("%s: nothing draws %s", s.title, file)
			}
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
	for _, want := range []string{"| CPU per event, burst of 200, verbatim | ≤ 1.50 × | 1.60 × | **no** |", "no figure", "performance/request.svg", "1 million requests/s", strings.TrimSpace(notes)[:20]} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
	again, err := readReport(filepath.Join(dir, "performance", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page(again, pictures(again)), text) {
		t.Error("the page from the saved data is another")
	}
}
