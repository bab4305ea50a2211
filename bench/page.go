package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/plot"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// notes explains the figures on the page.
//
//go:embed notes.md
var notes string

// method describes the measurement on the page.
//
//go:embed method.md
var method string

// writePage writes performance.md and the figures behind it.
func writePage(dir string, r *report) error {
	if err := os.MkdirAll(filepath.Join(dir, "performance"), 0o755); err != nil { //nolint:gosec // a folder for everyone
		return err
	}
	if err := r.saveJSON(filepath.Join(dir, "performance", "results.json")); err != nil {
		return err
	}
	for _, p := range openStreamPlots() {
		if picture := p.draw(r); picture != nil {
			if err := os.WriteFile(filepath.Join(dir, p.file), picture, 0o644); err != nil { //nolint:gosec // for everyone
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, "performance.md"), page(r), 0o644) //nolint:gosec // a page for everyone
}

// openStreamPlot is a plot of a table over the number of open streams.
type openStreamPlot struct{ table, file, title, unit string }

func openStreamPlots() []openStreamPlot {
	return []openStreamPlot{
		{"memory-total", "performance/memory-of-streams.svg", "Resident memory over open streams, HTTP/1.1", "MiB"},
		{"memory-cpu", "performance/cpu-of-streams.svg", "CPU over open streams with an event every 5 s, HTTP/1.1", "% of a core"},
	}
}

// draw returns the plot, nil if there are no two points of a line.
func (o openStreamPlot) draw(r *report) []byte {
	p := plot.Plot{Title: o.title, XLabel: "open streams", YLabel: o.unit}
	for _, arm := range []string{bareChat, ours, oursMessages, oursAnswers} {
		line := plot.Line{Name: arm}
		for _, x := range r.columns(o.table) {
			if y, ok := r.value(o.table, arm, x); ok {
				line.Points = append(line.Points, plot.Point{X: x, Y: y})
			}
		}
		if len(line.Points) > 1 {
			p.Lines = append(p.Lines, line)
		}
	}
	if len(p.Lines) == 0 {
		return nil
	}
	return p.SVG()
}

// page returns the results page.
func page(r *report) []byte {
	w := &bytes.Buffer{}
	fmt.Fprint(w, "# Performance\n\n<!-- Written by `make bench`; do not edit. The texts are bench/method.md and bench/notes.md. -->\n\n")
	fmt.Fprintf(w, "CPU, memory and latency of the gateway compared with a bare `httputil.ReverseProxy` (**bare**) in the same run, with metrics and access log on, which is the default. The run took %.0f minutes; the command repeats it on your machine.\n\n%s\n", r.Took/60, r.run().Line())
	fmt.Fprint(w, "## Goals\n\n")
	markdown(w, goalGrid(r))
	for _, remark := range r.Remarks {
		fmt.Fprintf(w, "- %s\n", remark)
	}
	fmt.Fprintf(w, "\n## What limits it\n\n%s\n", strings.TrimSpace(notes))
	fmt.Fprint(w, "\n## The machine and the method\n\n")
	writeMachine(w, r.Machine)
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(method))
	for _, s := range sections() {
		writeSection(w, r, s)
	}
	writeCapacity(w, r)
	writePeers(w)
	return append(bytes.TrimRight(w.Bytes(), "\n"), '\n')
}

// run describes the run of which the figures are. Reports of November 2026 have no commit but the gateway's version, which names it.
func (r *report) run() testrig.Origin {
	return testrig.Origin{When: r.When, Commit: cmp.Or(r.Commit, versionCommit.FindString(r.Machine.Version)), Machine: r.Machine.String(), Command: "make bench"}
}

var versionCommit = regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)

func goalGrid(r *report) [][]string {
	grid := [][]string{{"figure", "goal", "measured", "held"}}
	for _, v := range judge(r, goals()) {
		row := []string{v.name, "≤ " + withUnit(v.most, v.unit), "no figure", "–"}
		if v.Measured {
			row[2], row[3] = v.measured(), "**no**"
		}
		if v.Held {
			row[3] = "yes"
		}
		grid = append(grid, row)
	}
	return grid
}

func writeMachine(w *bytes.Buffer, m machine) {
	markdown(w, [][]string{
		{"what", "which"}, {"CPU", fmt.Sprintf("%d × %s", m.Cores, m.CPU)}, {"memory", fmt.Sprintf("%.0f GiB", m.Memory)},
		{"kernel", "Linux " + m.Kernel}, {"Go", m.Go}, {"gateway", m.Version}, {"nginx", m.Nginx},
	})
}

// section is a heading and its tables.
type section struct {
	title, text string
	tables      []string
	lead        func(*report) [][]string // a table before the others; nil for none
}

func sections() []section {
	return []section{
		{title: "CPU per request", tables: []string{"request-2k-1k", "request-200k-1k", "request-2k-100k"}},
		{title: "CPU per event", text: "The cost of a stream, including its request, divided by its events with text. If events arrive late, the machine is overloaded; a proxy then handles several events at once and looks cheaper. The goal and the capacity below therefore use the largest number of streams for which 97 % of the events arrived in time.", tables: []string{"burst", "paced", "paced-delivered"}},
		{title: "Latency", text: "Latency in addition to direct requests to the upstream in the same round; the row *direct* is the latency of those. Load, upstream and proxy share the cores.", tables: []string{"latency-p50", "latency-p99", "half-p50", "half-p99", "first-p50", "first-p99", "rate"}},
		{title: "Memory", text: "Streams with an event every five seconds, on a fresh process.", tables: []string{"memory", "memory-go"}},
		{title: "All pairs of dialects", text: "Translated streams over HTTP/1.1. The cost of a stream, including its request, divided by its events with text.", tables: []string{"dialects", "dialects-allocs"}},
		{title: "Versions of HTTP", text: versionsText, tables: []string{"http-request", "http-burst", "http-paced", "http-memory", "http-request-allocs", "http-burst-allocs"}},
		{title: "With keys, limits and ledger on", text: storeText, lead: storeGrid, tables: []string{"store-request", "store-burst", "store-paced", "store-memory", "store-p50", "store-p99"}},
		{title: "Allocations", tables: []string{"request-2k-1k-allocs", "request-2k-1k-bytes", "request-200k-1k-bytes", "request-2k-100k-bytes", "burst-allocs"}},
		{title: "How cost grows", tables: []string{"stream-events", "body", "models", "start"}},
	}
}

const versionsText = "The version of the client, then that of the upstream: *h1* is HTTP/1.1 without TLS, *h1s* with TLS, *h2* HTTP/2 over TLS. Clients of HTTP/2 share connections: four for requests, one for 200 open streams. The collector of bare is set as that of the gateway; with *GOGC=100* both have Go's default."

const storeText = "The same load with a client's key that has limits on requests, tokens and money, and a price for every model: *store* has its keys and its ledger in SQLite and counts limits in memory, *store and Redis* counts them in a Redis beside it. Figures are with the ratio to **bare** of the same rounds. CPU is that of the gateway's process alone, read when the row of every request was in the ledger, so that what is done after the answer is in it; SQLite is part of that process, Redis is not."

func writeSection(w *bytes.Buffer, r *report, s section) {
	fmt.Fprintf(w, "## %s\n\n", s.title)
	if s.text != "" {
		fmt.Fprintf(w, "%s\n\n", s.text)
	}
	if s.lead != nil {
		if grid := s.lead(r); grid != nil {
			markdown(w, grid)
		}
	}
	for _, p := range openStreamPlots() {
		if s.title == "Memory" && p.draw(r) != nil {
			fmt.Fprintf(w, "![%s](%s)\n\n", p.title, p.file)
		}
	}
	for _, key := range s.tables {
		t := findTable(key)
		if grid := t.grid(r); grid != nil {
			fmt.Fprintf(w, "**%s**\n\n", t.title)
			markdown(w, grid)
		}
	}
}
