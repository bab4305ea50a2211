package agents

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// further are the columns beside those of the dialects, for one row of each agent.
var further = []string{"engine", "failover", "switch"}

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
			all += len(further)
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
	b.WriteString(`Each agent does a small task in its own folder: it reads a file, changes it with its own tool, runs a command and reports what it
read. The upstream is a scripted, streaming model. A run checks the file, the effect of the command and the report, that each
turn was requested once, that no request contained anything that the vendor rejects, and that the gateway reported its losses.
The column *engine* is text from a real engine (llama.cpp).

In the last two columns a conversation with calls moves over three vendors and returns to the first: by *failover*, with one vendor
serving each turn while the others fail, and by a *switch* of models, in the same process or by resuming the conversation. A run checks
that each request has all prompts, answers, calls and results so far, every seal of the vendor that it goes to, and no seal of another.
Seals on texts come back where the client keeps them: Claude Code does, clients of Chat Completions do not. Gemini CLI's switch has no calls, because it sends
results twice after ` + "`--resume`" + `.

`)
	rows := [][]string{{"agent", "version", "speaks"}}
	for _, d := range rig.Dialects() {
		rows[0] = append(rows[0], d.Name)
	}
	rows[0] = append(rows[0], further...)
	for _, a := range agents() {
		row := []string{a.title, a.version, a.dialect}
		for _, upstream := range rows[0][3:] {
			row = append(row, w.mark(a, upstream))
		}
		rows = append(rows, row)
	}
	b.WriteString(testrig.MarkdownTable(rows))
	return b.String()
}

// mark is what the table says of a cell.
func (w *world) mark(a *agent, upstream string) string {
	done, tried := w.cells[cell{a.name, upstream}]
	switch {
	case !tried:
		return "–"
	case !done:
		return "no"
	}
	return "✓"
}
