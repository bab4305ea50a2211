package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// frame is a function in a flame graph, with the samples in it and in what it calls.
type frame struct {
	name    string
	samples int
	calls   map[string]*frame
}

// add adds a stack, the outermost function first.
func (f *frame) add(stack []string) {
	f.samples++
	for _, name := range stack {
		if f.calls == nil {
			f.calls = map[string]*frame{}
		}
		next := f.calls[name]
		if next == nil {
			next = &frame{name: name}
			f.calls[name] = next
		}
		next.samples++
		f = next
	}
}

// depth returns the number of levels that have at least so many samples.
func (f *frame) depth(least int) int {
	deepest := 0
	for _, c := range f.calls {
		if c.samples >= least {
			deepest = max(deepest, c.depth(least))
		}
	}
	return deepest + 1
}

const (
	flameWidth = 1200
	flameRow   = 17
	flameTop   = 44
	flameShare = 400 // frames with less than this part of the samples are not drawn
	charWidth  = 6.2
)

const flameStyle = `
    text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; }
    .title { font: 600 15px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
    .note { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
    rect { stroke: #ffffff; stroke-width: .6; }
    .back { fill: #ffffff; }
    .ours { fill: #54aeff; } .http { fill: #ffb77c; } .runtime { fill: #d0d7de; } .kernel { fill: #ff9492; } .other { fill: #aceebb; }
`

// flame draws a flame graph: a rectangle for each function, as wide as its share of the samples, above the one that
// calls it.
func flame(title string, root *frame) []byte {
	least := max(1, root.samples/flameShare)
	height := flameTop + flameRow*root.depth(least) + 12
	var w bytes.Buffer
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n  <style>%s  </style>\n", flameWidth, height, html.EscapeString(title), flameStyle)
	fmt.Fprintf(&w, `  <rect class="back" width="%d" height="%d"/>`+"\n", flameWidth, height)
	fmt.Fprintf(&w, `  <text class="title" x="10" y="20">%s</text>`+"\n", html.EscapeString(title))
	fmt.Fprintf(&w, `  <text class="note" x="10" y="37">%s samples. Blue: Isogloss; orange: net/http, crypto/tls; grey: runtime; red: kernel; green: other</text>`+"\n", thousands(float64(root.samples)))
	root.draw(&w, 0, flameWidth, height-12-flameRow, least)
	w.WriteString("</svg>\n")
	return w.Bytes()
}

func (f *frame) draw(w io.Writer, x, width float64, y, least int) {
	share := width / flameWidth * 100
	fmt.Fprintf(w, `  <g><title>%s: %.1f %%</title><rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, html.EscapeString(f.name), share, f.class(), x, y, width, flameRow)
	if room := int(width/charWidth) - 1; room >= 4 {
		text := f.name
		if len(text) > room {
			text = text[:room-1] + "…"
		}
		fmt.Fprintf(w, `<text x="%.1f" y="%d">%s</text>`, x+3, y+12, html.EscapeString(text))
	}
	fmt.Fprintln(w, "</g>")
	for _, name := range slices.Sorted(maps.Keys(f.calls)) {
		c := f.calls[name]
		part := width * float64(c.samples) / float64(f.samples)
		if c.samples >= least {
			c.draw(w, x, part, y-flameRow, least)
		}
		x += part
	}
}

// class returns whose function a frame is.
func (f *frame) class() string {
	starts := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.name, p) })
	}
	switch {
	case f.name == kernelFrame:
		return "kernel"
	case starts("isogloss/"):
		return "ours"
	case starts("net/http", "crypto/"):
		return "http"
	case starts("runtime"):
		return "runtime"
	}
	return "other"
}

// kernelFrame stands for all functions of the kernel.
const kernelFrame = "kernel"

// symbols finds the functions of a Go program, stripped or not.
type symbols struct {
	table *gosym.Table
	base  uint64 // where the program begins in memory: perf counts addresses from there
}

func readSymbols(path string) (*symbols, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, text := f.Section(".gopclntab"), f.Section(".text")
	if lines == nil || text == nil {
		return nil, fmt.Errorf("%s is not a Go program for Linux", path)
	}
	data, err := lines.Data()
	if err != nil {
		return nil, err
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	return &symbols{table, text.Addr - text.Offset}, err
}

// name returns the function at an address of perf.
func (s *symbols) name(address uint64) string {
	if address >= 1<<63 {
		return kernelFrame
	}
	f := s.table.PCToFunc(s.base + address)
	if f == nil {
		return "unknown"
	}
	name := strings.TrimPrefix(f.Name, "github.com/isogloss-gateway/")
	return strings.Replace(strings.Replace(name, "isogloss/internal/", "isogloss/", 1), "github.com/", "", 1)
}

// readStacks reads what `perf script -F ip` prints: an address in each line, the innermost first, and an empty line
// after each sample.
func readStacks(r io.Reader, s *symbols) (*frame, error) {
	root := &frame{name: "all"}
	var stack []string
	end := func() {
		if len(stack) > 0 {
			slices.Reverse(stack)
			root.add(slices.Compact(stack)) // of the kernel one frame is enough
		}
		stack = nil
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if text == "" {
			end()
			continue
		}
		address, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("perf script: %q is no address", cmp.Or(lines.Text(), text))
		}
		stack = append(stack, s.name(address))
	}
	end()
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if root.samples == 0 {
		return nil, fmt.Errorf("perf has no samples")
	}
	return root, nil
}
