// Package plot draws the plots of the documentation.
package plot

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

// Plot draws lines over x.
type Plot struct {
	Title, XLabel, YLabel string
	LogX                  bool
	Ticks                 []float64 // on the axis of x; nil: the points of the first line, which are marked then
	Lines                 []Line
}

// Line is a line with its name.
type Line struct {
	Name   string
	Points []Point
}

// Point is a point of a line.
type Point struct{ X, Y float64 }

const (
	plotWidth, plotHeight                   = 820, 400
	plotLeft, plotRight, plotTop, plotBelow = 80, 272, 48, 56
)

const plotStyle = `
    text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
    .title { font-size: 16px; font-weight: 600; }
    .soft { fill: #59636e; font-size: 12px; }
    .back { fill: #ffffff; }
    .grid { stroke: #d1d9e0; stroke-width: 1; }
    .axis { stroke: #59636e; stroke-width: 1; }
    .c0 { stroke: #59636e; fill: #59636e; } .c1 { stroke: #0969da; fill: #0969da; } .c2 { stroke: #bc4c00; fill: #bc4c00; } .c3 { stroke: #1a7f37; fill: #1a7f37; }
    .line { fill: none; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .soft { fill: #9198a1; }
      .back { fill: #0d1117; }
      .grid { stroke: #3d444d; }
      .axis { stroke: #9198a1; }
      .c0 { stroke: #9198a1; fill: #9198a1; } .c1 { stroke: #4493f8; fill: #4493f8; } .c2 { stroke: #f0883e; fill: #f0883e; } .c3 { stroke: #3fb950; fill: #3fb950; }
      .line { fill: none; }
    }
`

// SVG returns the plot.
func (p Plot) SVG() []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", plotWidth, plotHeight, html.EscapeString(p.Title))
	fmt.Fprintf(&w, "  <style>%s  </style>\n  <rect class=\"back\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", plotStyle, plotWidth, plotHeight)
	label(&w, "title", 16, 28, "start", p.Title)
	x, y, top := p.scales()
	for i := range 6 {
		v := top * float64(i) / 5
		rule(&w, "grid", plotLeft, y(v), plotWidth-plotRight, y(v))
		label(&w, "soft", plotLeft-8, y(v)+4, "end", fmt.Sprintf("%.4g", v))
	}
	for _, at := range p.ticks() {
		rule(&w, "grid", x(at), plotTop, x(at), plotHeight-plotBelow)
		label(&w, "soft", x(at), plotHeight-plotBelow+18, "middle", fmt.Sprintf("%.5g", at))
	}
	rule(&w, "axis", plotLeft, plotHeight-plotBelow, plotWidth-plotRight, plotHeight-plotBelow)
	rule(&w, "axis", plotLeft, plotTop, plotLeft, plotHeight-plotBelow)
	label(&w, "soft", (plotLeft+plotWidth-plotRight)/2, plotHeight-14, "middle", p.XLabel)
	fmt.Fprintf(&w, `  <text class="soft" transform="translate(20 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (plotTop+plotHeight-plotBelow)/2, html.EscapeString(p.YLabel))
	for i, l := range p.Lines {
		fmt.Fprintf(&w, `  <polyline class="c%d line" points="`, i%4)
		for _, q := range l.Points {
			fmt.Fprintf(&w, "%.1f,%.1f ", x(q.X), y(q.Y))
		}
		w.WriteString("\"/>\n")
		for _, q := range l.Points[:p.marks(l)] {
			mark(&w, i, x(q.X), y(q.Y))
		}
		at := float64(plotTop + 10 + 22*i)
		mark(&w, i, plotWidth-plotRight+22, at)
		label(&w, "", plotWidth-plotRight+34, at+4, "start", l.Name)
	}
	w.WriteString("</svg>\n")
	return w.Bytes()
}

// ticks returns the labelled values of x.
func (p Plot) ticks() []float64 {
	all := p.Ticks
	if all == nil {
		for _, q := range p.Lines[0].Points {
			all = append(all, q.X)
		}
	}
	return all
}

// marks returns how many points of a line are marked.
func (p Plot) marks(l Line) int {
	if p.Ticks != nil {
		return 0
	}
	return len(l.Points)
}

// scales returns functions that map values to coordinates; top is the end of the axis.
func (p Plot) scales() (x, y func(float64) float64, top float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range p.Lines {
		for _, q := range l.Points {
			low, high, top = min(low, q.X), max(high, q.X), max(top, q.Y)
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(max(top, 1e-3))))
	top = math.Ceil(math.Round(top/step*1e6)/1e6) * step
	of := func(v float64) float64 { return v }
	if p.LogX {
		of = math.Log10
	}
	x = func(v float64) float64 {
		return plotLeft + 10 + (of(v)-of(low))/(of(high)-of(low))*(plotWidth-plotRight-plotLeft-20)
	}
	y = func(v float64) float64 { return plotHeight - plotBelow - v/top*(plotHeight-plotBelow-plotTop) }
	return x, y, top
}

func label(w *bytes.Buffer, class string, x, y float64, anchor, text string) {
	fmt.Fprintf(w, `  <text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
}

func rule(w *bytes.Buffer, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(w, `  <line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

// mark draws a point: a circle, a square, a diamond or a triangle.
func mark(w *bytes.Buffer, i int, x, y float64) {
	shape := [...]string{`<circle class="c%d" cx="%.1f" cy="%.1f" r="4"/>`, `<rect class="c%d" x="%.1f" y="%.1f" width="8" height="8"/>`,
		`<path class="c%d" d="M%.1f %.1fl5 5-5 5-5-5z"/>`, `<path class="c%d" d="M%.1f %.1fl5 9h-10z"/>`}[i%4]
	switch i % 4 {
	case 1:
		x, y = x-4, y-4
	case 2, 3:
		y -= 5
	}
	fmt.Fprintf(w, "  "+shape+"\n", i%4, x, y)
}
