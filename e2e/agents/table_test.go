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
	if len(w.cells) < len(agents())*len(rig.Dialects()) {
		return
	}
	text := w.table()
	t.Log("\n" + text)
	rig.Page(t, "agents", text)
}

func (w *world) table() string {
	var b strings.Builder
	b.WriteString("| agent | version | speaks |")
	for _, d := range rig.Dialects() {
		b.WriteString(" on `" + d.Name + "` |")
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(rig.Dialects())) + "\n")
	for _, a := range agents() {
		b.WriteString("| " + a.title + " | " + a.version + " | `" + a.dialect + "` |")
		for _, d := range rig.Dialects() {
			b.WriteString(" " + map[bool]string{true: "✓", false: "no"}[w.cells[cell{a.name, d.Name}]] + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
