package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A plot is lines over x, or bars. We write the SVG ourselves: it is two kinds of
// picture, and the libraries that draw charts bring fonts and raster images along.
type plot struct {
	title, xLabel, yLabel string
	logX, logY            bool
	lines                 []line
	bars                  []bar
}

type line struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

type bar struct {
	name  string
	value float64
	note  string
}

// The picture's measures.
const (
	width, height           = 820, 400
	left, right, top, below = 80, 272, 48, 56
)

// style has colours for both modes; the lines also differ in their marks, for readers
// who do not tell colours apart.
const style = `
    text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
    .title { font-size: 16px; font-weight: 600; }
    .soft { fill: #59636e; font-size: 12px; }
    .back { fill: #ffffff; }
    .grid { stroke: #d1d9e0; stroke-width: 1; }
    .axis { stroke: #59636e; stroke-width: 1; }
    .line { fill: none; stroke-width: 2; }
    .c0 { stroke: #59636e; fill: #59636e; } .c1 { stroke: #0969da; fill: #0969da; } .c2 { stroke: #bc4c00; fill: #bc4c00; }
    .c3 { stroke: #1a7f37; fill: #1a7f37; } .c4 { stroke: #8250df; fill: #8250df; } .c5 { stroke: #bf3989; fill: #bf3989; }
    .line.c0, .line.c1, .line.c2, .line.c3, .line.c4, .line.c5 { fill: none; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .soft { fill: #9198a1; }
      .back { fill: #0d1117; }
      .grid { stroke: #3d444d; }
      .axis { stroke: #9198a1; }
      .c0 { stroke: #9198a1; fill: #9198a1; } .c1 { stroke: #4493f8; fill: #4493f8; } .c2 { stroke: #f0883e; fill: #f0883e; }
      .c3 { stroke: #3fb950; fill: #3fb950; } .c4 { stroke: #ab7df8; fill: #ab7df8; } .c5 { stroke: #f778ba; fill: #f778ba; }
    }
`

// svg draws the plot.
func (p plot) svg() []byte {
	var w bytes.Buffer
	h := height
	if len(p.bars) > 0 {
		h = top + below + 30*len(p.bars)
	}
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", width, h, html.EscapeString(p.title))
	fmt.Fprintf(&w, "  <style>%s  </style>\n  <rect class=\"back\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", style, width, h)
	label(&w, "title", 16, 28, "start", p.title)
	if len(p.bars) > 0 {
		p.drawBars(&w, h)
	} else {
		p.drawLines(&w)
	}
	w.WriteString("</svg>\n")
	return w.Bytes()
}

func label(w *bytes.Buffer, class string, x, y float64, anchor, text string) {
	fmt.Fprintf(w, `  <text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
}

func rule(w *bytes.Buffer, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(w, `  <line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

// drawBars draws lying bars, with the names to their left.
func (p plot) drawBars(w *bytes.Buffer, h int) {
	const names, values = 250, 150
	most := 0.0
	for _, b := range p.bars {
		most = max(most, b.value)
	}
	s := scale{0, ceil(most), names, width - values, false}
	for _, t := range s.ticks() {
		rule(w, "grid", s.at(t), top, s.at(t), float64(h-below))
		label(w, "soft", s.at(t), float64(h-below+18), "middle", tick(t))
	}
	for i, b := range p.bars {
		y := float64(top + 30*i)
		label(w, "", names-8, y+19, "end", b.name)
		fmt.Fprintf(w, `  <rect class="%s" x="%d" y="%.1f" width="%.1f" height="20" rx="2"/>`+"\n", barColour(b.name), names, y+5, max(1, s.at(b.value)-names))
		label(w, "soft", s.at(b.value)+6, y+19, "start", b.note)
	}
	rule(w, "axis", names, top, names, float64(h-below))
	label(w, "soft", (names+width-values)/2, float64(h-14), "middle", p.xLabel)
}

// barColour tells the kinds apart: what is compared with, ours, and the rest.
func barColour(name string) string {
	switch {
	case strings.HasPrefix(name, bareChat):
		return "c0"
	case strings.HasPrefix(name, ours):
		return "c1"
	}
	return "c2"
}

// looks gives every line a number for its colour and mark: the arms that are always
// there have the same one in every plot, the others take what is left.
func looks(lines []line) []int {
	fixed := []string{bareChat, ours, nginxArm, oursMessages}
	all := make([]int, len(lines))
	next := len(fixed)
	for i, l := range lines {
		all[i] = slices.Index(fixed, l.name)
		if all[i] < 0 {
			all[i] = next
			next++
		}
	}
	return all
}

func (p plot) drawLines(w *bytes.Buffer) {
	x, y := p.scales()
	for _, t := range y.ticks() {
		rule(w, "grid", left, y.at(t), width-right, y.at(t))
		label(w, "soft", left-8, y.at(t)+4, "end", tick(t))
	}
	for _, t := range p.xTicks() {
		rule(w, "grid", x.at(t), top, x.at(t), height-below)
		label(w, "soft", x.at(t), height-below+18, "middle", tick(t))
	}
	rule(w, "axis", left, height-below, width-right, height-below)
	rule(w, "axis", left, top, left, height-below)
	label(w, "soft", (left+width-right)/2, height-14, "middle", p.xLabel)
	fmt.Fprintf(w, `  <text class="soft" transform="translate(20 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+height-below)/2, html.EscapeString(p.yLabel))
	look := looks(p.lines)
	for i, l := range p.lines {
		colour := fmt.Sprintf("c%d", look[i]%6)
		w.WriteString(`  <polyline class="line ` + colour + `" points="`)
		for _, q := range l.points {
			fmt.Fprintf(w, "%.1f,%.1f ", x.at(q.x), y.at(q.y))
		}
		w.WriteString("\"/>\n")
		for _, q := range l.points {
			mark(w, look[i], colour, x.at(q.x), y.at(q.y))
		}
		at := float64(top + 10 + 22*i)
		mark(w, look[i], colour, width-right+22, at)
		label(w, "", width-right+34, at+4, "start", l.name)
	}
}

// mark draws a point: a circle, a square, a diamond, a triangle.
func mark(w *bytes.Buffer, i int, colour string, x, y float64) {
	switch i % 4 {
	case 0:
		fmt.Fprintf(w, `  <circle class="%s" cx="%.1f" cy="%.1f" r="4"/>`+"\n", colour, x, y)
	case 1:
		fmt.Fprintf(w, `  <rect class="%s" x="%.1f" y="%.1f" width="8" height="8"/>`+"\n", colour, x-4, y-4)
	case 2:
		fmt.Fprintf(w, `  <path class="%s" d="M%.1f %.1fl5 5-5 5-5-5z"/>`+"\n", colour, x, y-5)
	default:
		fmt.Fprintf(w, `  <path class="%s" d="M%.1f %.1fl5 9h-10z"/>`+"\n", colour, x, y-5)
	}
}

func (p plot) scales() (x, y scale) {
	lowX, highX, lowY, highY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range p.lines {
		for _, q := range l.points {
			lowX, highX = min(lowX, q.x), max(highX, q.x)
			lowY, highY = min(lowY, q.y), max(highY, q.y)
		}
	}
	x = scale{lowX, highX, left + 10, width - right - 10, p.logX}
	y = scale{-ceil(max(0, -lowY)), ceil(highY), height - below, top, p.logY}
	if p.logY {
		y.from, y.to = math.Pow(10, math.Floor(math.Log10(lowY))), math.Pow(10, math.Ceil(math.Log10(highY)))
	}
	return x, y
}

// xTicks are the values of x that were measured.
func (p plot) xTicks() []float64 {
	var all []float64
	seen := map[float64]bool{}
	for _, l := range p.lines {
		for _, q := range l.points {
			if !seen[q.x] {
				seen[q.x] = true
				all = append(all, q.x)
			}
		}
	}
	return all
}

// tick is a number on an axis.
func tick(x float64) string {
	switch {
	case x == 0:
		return "0" // also where a step from below has come to -0
	case x >= 1000:
		return thousands(x)
	}
	return fmt.Sprintf("%.4g", x)
}
