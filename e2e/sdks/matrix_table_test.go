package sdks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// marks are what a cell of the table may say.
const (
	works   = "✓"
	fails   = "✗"
	lacking = "–" // the SDK has no such thing
	refused = "404"
)

// finish prints the table and holds that the page in the documentation is what this
// run has done. A run of a part of the matrix prints that part and holds nothing.
func (m *matrix) finish(t *testing.T) {
	t.Helper()
	if len(m.cells) == 0 {
		return
	}
	fmt.Print(m.table())
	done, all := len(m.cells), 0
	for _, s := range surfaces() {
		for _, f := range features() {
			if f.has == nil || f.has(s) {
				all += len(rig.Dialects())
			}
		}
	}
	if done < all { // -run has left some out
		if rig.Updates() {
			t.Error("only a run of the whole matrix may write docs/compatibility.md")
		}
		return
	}
	rig.Page(t, "sdks", m.page())
}

func (m *matrix) page() string {
	ok := 0
	for _, passed := range m.cells {
		if passed {
			ok++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Each row is an SDK's API on an upstream: %d of %d work. The upstream is scripted and plays the vendor's server;
besides what the SDK reports, a run holds that the upstream was asked what the user asked, with the provider's key, and that an
upstream of the SDK's own dialect gets the SDK's own bytes.

`, ok, len(m.cells))
	b.WriteString(m.table())
	b.WriteString("\n" + works + " works, " + fails + " does not, " + lacking + " the SDK has no such thing, " + refused +
		" is refused with the dialect's own typed error.\n\n")
	b.WriteString(`| column | what is done |
|---|---|
`)
	for _, f := range features() {
		fmt.Fprintf(&b, "| %s | %s |\n", f.column, f.meaning)
	}
	for i, s := range faultySurfaces() {
		if i == 0 {
			b.WriteString("\n### Where the SDK falls short\n\n")
		}
		fmt.Fprintf(&b, "%d. `%s` %s for %s: %s\n", i+1, s.sdk, s.version, languages[s.language], s.fault)
	}
	return b.String()
}

var languages = map[string]string{"go": "Go", "python": "Python", "node": "Node"}

// table has a row for each API of an SDK on each upstream that this run was about.
func (m *matrix) table() string {
	var b strings.Builder
	b.WriteString("| | SDK | version | API | upstream |")
	rule := "|---|---|---|---|---|"
	for _, f := range features() {
		b.WriteString(" " + f.column + " |")
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, s := range surfaces() {
		for _, d := range rig.Dialects() {
			if !m.asked(s, d) {
				continue
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |", languages[s.language], s.sdk, s.version, s.dialect, d.Name)
			for _, f := range features() {
				b.WriteString(" " + m.mark(s, d, f) + " |")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (m *matrix) asked(s *surface, d *rig.Dialect) bool {
	for _, f := range features() {
		if _, ok := m.cells[cell{s.name(), d.Name, f.name}]; ok {
			return true
		}
	}
	return false
}

func (m *matrix) mark(s *surface, d *rig.Dialect, f feature) string {
	passed, ok := m.cells[cell{s.name(), d.Name, f.name}]
	switch {
	case f.has != nil && !f.has(s):
		return lacking
	case !ok:
		return ""
	case !passed:
		return fails
	case f.name == "count_tokens" && d.Counted == "":
		return refused
	case f.name == s.faultIn:
		for i, other := range faultySurfaces() {
			if other.name() == s.name() {
				return fmt.Sprintf("no (%d)", i+1)
			}
		}
	}
	return works
}

// faultySurfaces are the SDKs that cannot do a feature whatever they are sent.
func faultySurfaces() []*surface {
	var out []*surface
	for _, s := range surfaces() {
		if s.faultIn != "" {
			out = append(out, s)
		}
	}
	return out
}
