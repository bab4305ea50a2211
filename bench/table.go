package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table says how the cells of one key are shown: a row for each arm, a column for each
// value of x, and the ratio to bare last.
type table struct {
	key, title string
	unit       string
	column     string // how x is written, "" where there is only one
	last       string // what the last column says, "" for the ratio to bare
}

func tables() []table {
	return []table{
		{key: "request-2k-1k", title: "CPU per request: 2 KB in, 1 KB out", unit: "µs"},
		{key: "request-200k-1k", title: "CPU per request: 200 KB in, 1 KB out", unit: "µs"},
		{key: "request-2k-100k", title: "CPU per request: 2 KB in, 100 KB out", unit: "µs"},
		{key: "burst", title: "CPU per event: bursts of 200", unit: "µs"},
		{key: "paced", title: "CPU per event: paced streams, 50 events a second each", unit: "µs", column: "%s open"},
		{key: "paced-delivered", title: "Events of paced streams that came in time", unit: "%", column: "%s open", last: "none"},
		{key: "latency-p50", title: "Latency added, p50, at fixed rates", unit: "ms", column: "%s/s"},
		{key: "latency-p99", title: "Latency added, p99, at fixed rates", unit: "ms", column: "%s/s"},
		{key: "half-p50", title: "Latency added, p50, at half of bare's highest rate", unit: "ms"},
		{key: "half-p99", title: "Latency added, p99, at half of bare's highest rate", unit: "ms"},
		{key: "first-p50", title: "Time to first token added, p50, 200 streams a second", unit: "ms"},
		{key: "first-p99", title: "Time to first token added, p99, 200 streams a second", unit: "ms"},
		{key: "rate", title: "Highest rate with p99 under 5 ms (more is better)", unit: "requests/s"},
		{key: "memory", title: "Resident memory per open stream", unit: "KiB", column: "%s open"},
		{key: "memory-go", title: "The Go runtime's own count per open stream: heap and stacks in use, untouched pages included", unit: "KiB", column: "%s open"},
		{key: "dialects", title: "CPU per event, bursts of 200: client on upstream", unit: "µs", last: "none"},
		{key: "dialects-allocs", title: "Allocations per event, bursts of 200: client on upstream", unit: "allocations", last: "none"},
		{key: "http-request", title: "CPU per request: 2 KB in, 1 KB out", unit: "µs"},
		{key: "http-burst", title: "CPU per event: bursts of 200", unit: "µs"},
		{key: "http-paced", title: "CPU per event: paced streams, 50 events a second each", unit: "µs", column: "%s open"},
		{key: "http-memory", title: "Resident memory per open stream", unit: "KiB", column: "%s open"},
		{key: "http-request-allocs", title: "Allocations per request: 2 KB in, 1 KB out", unit: "allocations"},
		{key: "http-burst-allocs", title: "Allocations per event: bursts of 200", unit: "allocations"},
		{key: "store-request", title: "CPU per request: 2 KB in, 1 KB out", unit: "µs"},
		{key: "store-request-allocs", title: "Allocations per request: 2 KB in, 1 KB out", unit: "allocations"},
		{key: "store-burst", title: "CPU per event: bursts of 200", unit: "µs"},
		{key: "store-paced", title: "CPU per event: paced streams, 50 events a second each", unit: "µs", column: "%s open"},
		{key: "store-memory", title: "Resident memory per open stream", unit: "KiB", column: "%s open"},
		{key: "store-p50", title: "Latency added, p50", unit: "ms", column: "%s/s"},
		{key: "store-p99", title: "Latency added, p99", unit: "ms", column: "%s/s"},
		{key: "request-2k-1k-allocs", title: "Allocations per request: 2 KB in, 1 KB out", unit: "allocations"},
		{key: "request-2k-1k-bytes", title: "Bytes allocated per request: 2 KB in, 1 KB out", unit: "KiB"},
		{key: "request-200k-1k-bytes", title: "Bytes allocated per request: 200 KB in, 1 KB out", unit: "KiB"},
		{key: "request-2k-100k-bytes", title: "Bytes allocated per request: 2 KB in, 100 KB out", unit: "KiB"},
		{key: "burst-allocs", title: "Allocations per event: bursts of 200", unit: "allocations"},
		{key: "stream-events", title: "CPU per stream, by its events", unit: "µs", column: "%s events"},
		{key: "body", title: "CPU per request, by the size of its body", unit: "µs", column: "%s KB"},
		{key: "models", title: "CPU per request, by models in the table", unit: "µs", column: "%s models", last: "last to first"},
		{key: "start", title: "Start to ready, by models in the table", unit: "ms", column: "%s models", last: "none"},
	}
}

func findTable(key string) table {
	for _, t := range tables() {
		if t.key == key {
			return t
		}
	}
	panic("there is no table " + key) // a slip in this program
}

// grid is a table as text, the header first; nil if nothing of it was measured.
func (t table) grid(r *report) [][]string {
	xs := r.columns(t.key)
	if len(xs) == 0 {
		return nil
	}
	header := []string{t.unit}
	for _, x := range xs {
		if t.column == "" {
			header = append(header, "median (lowest–highest)")
		} else {
			header = append(header, fmt.Sprintf(t.column, thousands(x)))
		}
	}
	header = append(header, "failed")
	if t.last != "none" {
		last := t.last
		if last == "" {
			last = "× bare"
		}
		header = append(header, last)
	}
	rows := [][]string{header}
	for _, arm := range r.arms(t.key) {
		rows = append(rows, t.row(r, arm, xs))
	}
	return rows
}

func (t table) row(r *report, arm string, xs []float64) []string {
	row := []string{arm}
	failed, asked := 0, 0
	for _, x := range xs {
		c := r.cell(t.key, arm, x)
		row = append(row, c.text())
		if c != nil {
			failed, asked = failed+c.Failed, asked+c.Asked
		}
	}
	row = append(row, fmt.Sprintf("%d of %s", failed, thousands(float64(asked))))
	if asked == 0 {
		row[len(row)-1] = ""
	}
	switch t.last {
	case "none":
		return row
	case "":
		return append(row, ratioText(r.ratios(t.key, arm, last(xs))))
	}
	return append(row, ratioText(r.growth(t.key, arm)))
}

// text is the median, and the spread where there was more than one round.
func (c *cell) text() string {
	if c == nil || len(c.Rounds) == 0 {
		return "–"
	}
	low, high := c.spread()
	if len(c.Rounds) == 1 {
		return short(c.median())
	}
	return fmt.Sprintf("%s (%s–%s)", short(c.median()), short(low), short(high))
}

// ratioText formats the median and the range of ratios.
func ratioText(all []float64) string {
	switch len(all) {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.2f", all[0])
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(all), slices.Min(all), slices.Max(all))
}

// markdown writes a grid. Columns of numbers are set to the right.
func markdown(w io.Writer, grid [][]string) {
	for i, row := range grid {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i > 0 {
			continue
		}
		fmt.Fprint(w, "|")
		for column := range row {
			fmt.Fprint(w, alignment(grid[1:], column))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

func alignment(rows [][]string, column int) string {
	for _, row := range rows {
		if text := strings.TrimLeft(row[column], "*≤ -–"); text != "" && (text[0] < '0' || text[0] > '9') {
			return "---|"
		}
	}
	return "---:|"
}

// writeConsole writes every table that there is.
func writeConsole(out io.Writer, r *report) {
	for _, t := range tables() {
		grid := t.grid(r)
		if grid == nil {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", t.title)
		w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		for _, row := range grid {
			fmt.Fprintf(w, "  %s\n", strings.Join(row, "\t"))
		}
		_ = w.Flush() // the console's own trouble
	}
	fmt.Fprintln(out)
}
