package agents

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// publish prints the table of what was done and holds that the page says so. Only a run
// of all agents knows.
func (w *world) publish(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := 0
	for _, a := range agents() {
		all += len(rig.Dialects())
		if !a.variant {
			all++
		}
	}
	if len(w.cells) < all {
		return
	}
	text := w.table()
	t.Log("\n" + text)
	rig.Page(t, "agents", text)
}

func (w *world) table() string {
	var b strings.Builder
	b.WriteString(`Each agent does a small job in a folder of its own: it reads a file, changes it with its own tool, runs a command and answers with
what it has read. A scripted model plays the upstream, streamed. A run holds that the file, the command's effect and the answer are right,
that each turn was asked for once, that nothing was asked which the vendor refuses, and that the gateway has said what it
could not carry. The last column is a text that a real engine (llama.cpp) has written.

`)
	b.WriteString("| agent | version | speaks |")
	for _, d := range rig.Dialects() {
		b.WriteString(" " + d.Name + " |")
	}
	b.WriteString(" engine |\n|---|---|---|" + strings.Repeat("---|", len(rig.Dialects())+1) + "\n")
	for _, a := range agents() {
		b.WriteString("| " + a.title + " | " + a.version + " | " + a.dialect + " |")
		for _, d := range rig.Dialects() {
			b.WriteString(w.mark(a, d.Name))
		}
		b.WriteString(w.mark(a, "engine") + "\n")
	}
	return b.String()
}

// mark is what the table says of a cell.
func (w *world) mark(a *agent, upstream string) string {
	done, tried := w.cells[cell{a.name, upstream}]
	switch {
	case !tried:
		return " – |"
	case !done:
		return " no |"
	}
	return " ✓ |"
}
