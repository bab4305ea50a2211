package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// picture is a plot and its file.
type picture struct {
	file string
	plot plot
}

// pictures draws what there is figures for.
func pictures(r *report) []picture {
	all := []picture{
		bars(r, "request-2k-1k", "request.svg", "CPU per request, 2 KB in, 1 KB out"),
		bars(r, "burst", "burst.svg", "CPU per event, bursts of 200"),
		lines(r, "stream-events", "events.svg", plot{title: "Cost of a stream by its events", xLabel: "events in the stream", yLabel: "µs of CPU per stream", logX: true, logY: true}),
		lines(r, "paced", "streams.svg", plot{title: "Cost of a paced event by open streams", xLabel: "open streams, 50 events a second each", yLabel: "µs of CPU per event", logX: true}),
		lines(r, "memory", "memory.svg", plot{title: "Memory of an open stream by open streams", xLabel: "open streams", yLabel: "KiB resident per stream"}),
		lines(r, "body", "body.svg", plot{title: "Cost of a request by its body", xLabel: "KB in the body", yLabel: "µs of CPU per request", logX: true, logY: true}),
		lines(r, "models", "models.svg", plot{title: "Cost of a request by models in the table", xLabel: "models", yLabel: "µs of CPU per request", logX: true}),
		lines(r, "latency-p99", "latency.svg", plot{title: "Latency added, p99, by rate", xLabel: "requests a second", yLabel: "ms", logX: true}),
	}
	var drawn []picture
	for _, p := range all {
		if len(p.plot.bars) > 0 || len(p.plot.lines) > 0 {
			drawn = append(drawn, p)
		}
	}
	return drawn
}

// bars are the medians of a table, with the ratio to bare.
func bars(r *report, key, file, title string) picture {
	p := plot{title: title, xLabel: findTable(key).unit + " of CPU"}
	for _, arm := range r.arms(key) {
		v, ok := r.value(key, arm, 0)
		if !ok {
			continue
		}
		note := short(v)
		if ratio, ok := r.ratio(key, arm, 0); ok {
			note = fmt.Sprintf("%s µs, %.2f ×", short(v), ratio)
		}
		p.bars = append(p.bars, bar{arm, v, note})
	}
	return picture{file, p}
}

// lines are the medians of a table over x, for the arms that have more than one. The
// upstream asked directly is no gateway.
func lines(r *report, key, file string, p plot) picture {
	for _, arm := range r.arms(key) {
		l := line{name: arm}
		for _, x := range r.columns(key) {
			if v, ok := r.value(key, arm, x); ok {
				l.points = append(l.points, point{x, v})
			}
		}
		if arm != direct && len(l.points) > 1 {
			p.lines = append(p.lines, l)
		}
	}
	return picture{file, p}
}

func writePictures(dir string, all []picture) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everyone to read
		return err
	}
	for _, p := range all {
		if err := os.WriteFile(filepath.Join(dir, p.file), p.plot.svg(), 0o644); err != nil { //nolint:gosec // for everyone to read
			return err
		}
	}
	return nil
}
