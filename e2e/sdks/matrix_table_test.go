package sdks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// marks are what a cell of the table may say.
const (
	works   = "✓"
	fails   = "✗"
	lacking = "–" // the SDK has no such thing
	refused = "501"
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
	for _, s := range m.surfaces {
		for _, f := range m.features() {
			if s.has(f) {
				all += len(rig.Dialects())
			}
		}
	}
	if done < all { // -run has left some out
		if rig.Updates() {
			t.Error("only a run of the whole matrix may write docs/evidence/compatibility.md")
		}
		return
	}
	rig.Page(t, m.section, m.page())
}

func (m *matrix) page() string {
	ok, no := m.count()
	work := fmt.Sprintf("%d of %d work", ok, len(m.cells))
	if no > 0 {
		work += fmt.Sprintf(", %d are refused with 501", no)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Each row is an API on an upstream: %[2]s. The upstream is scripted like the vendor's server. A run checks what
the %[1]s reports, that the upstream received the user's request with the provider's key, and that an upstream of the %[1]s's own
dialect received the %[1]s's own bytes.

`, m.noun, work)
	b.WriteString(m.table())
	b.WriteString("\n" + works + " works, " + fails + " does not, " + lacking + " the " + m.noun + " does not have it, " + refused +
		" is refused with the dialect's typed error.\n\n")
	m.columns(&b)
	m.settings(&b)
	list(&b, "Where the "+m.noun+" falls short", m.notes(func(s *surface, f feature) string { return s.faults[f.name].why }))
	list(&b, "What the "+m.noun+" does not have", m.notes(func(s *surface, f feature) string { return s.lacks[f.name] }))
	return b.String()
}

// count returns how many cells work, and how many are refused as they should be.
func (m *matrix) count() (ok, no int) {
	for c, passed := range m.cells {
		switch s := m.surface(c.surface); {
		case !passed || s.fails(c.feature, c.upstream):
		case isRefused(c.feature, rig.DialectNamed(c.upstream)):
			no++
		default:
			ok++
		}
	}
	return ok, no
}

// isRefused reports whether a feature is refused on an upstream that has no equivalent of it.
func isRefused(feature string, d *rig.Dialect) bool {
	return feature == "count_tokens" && d.Counted == ""
}

// columns says what is done for a mark. The frameworks' are those of the SDKs and a few
// of their own.
func (m *matrix) columns(b *strings.Builder) {
	sdks := m.section == "sdks"
	if !sdks {
		b.WriteString("The columns are those of the SDKs, with the framework's own means in place of the SDK's, and these:\n\n")
	}
	b.WriteString("| column | what is done |\n|---|---|\n")
	for _, f := range m.features() {
		if sdks || f.framed {
			fmt.Fprintf(b, "| %s | %s |\n", f.column, f.meaning)
		}
	}
}

func (m *matrix) settings(b *strings.Builder) {
	title := "\n### What is set besides the base URL and the key\n\n"
	for _, s := range m.surfaces {
		if s.needs != "" {
			fmt.Fprintf(b, "%s* `%s` on %s: %s.\n", title, s.sdk, s.dialect, s.needs)
			title = ""
		}
	}
}

func list(b *strings.Builder, title string, notes []note) {
	if len(notes) > 0 {
		b.WriteString("\n### " + title + "\n\n")
	}
	for i, n := range notes {
		fmt.Fprintf(b, "%d. %s, *%s*: %s.\n", i+1, n.where, n.column, n.why)
	}
}

func (m *matrix) surface(name string) *surface {
	return m.surfaces[slices.IndexFunc(m.surfaces, func(s *surface) bool { return s.name() == name })]
}

// A note is a remark on a column that holds for some packages.
type note struct{ column, why, where string }

// notes are remarks on surfaces, each once, in the order of the table.
func (m *matrix) notes(remark func(*surface, feature) string) []note {
	var out []note
	for _, s := range m.surfaces {
		for _, f := range m.features() {
			why := remark(s, f)
			if why == "" || f.has != nil && !f.has(s) {
				continue
			}
			i := slices.IndexFunc(out, func(n note) bool { return n.column == f.column && n.why == why })
			if i < 0 {
				i, out = len(out), append(out, note{column: f.column, why: why})
			}
			if name := fmt.Sprintf("`%s` %s", s.sdk, s.version); !strings.Contains(out[i].where, name) {
				out[i].where = strings.TrimPrefix(out[i].where+", "+name, ", ")
			}
		}
	}
	return out
}

var languages = map[string]string{"go": "Go", "python": "Python", "node": "Node"}

// table has a row for each API of an SDK on each upstream that this run was about.
func (m *matrix) table() string {
	rows := [][]string{{"", m.noun, "version", "API", "upstream"}}
	for _, f := range m.features() {
		rows[0] = append(rows[0], f.column)
	}
	for _, s := range m.surfaces {
		for _, d := range rig.Dialects() {
			if !m.asked(s, d) {
				continue
			}
			row := []string{languages[s.language], strings.TrimSpace(s.family + " `" + s.sdk + "`"), s.version, s.dialect, d.Name}
			for _, f := range m.features() {
				row = append(row, m.mark(s, d, f))
			}
			rows = append(rows, row)
		}
	}
	return testrig.MarkdownTable(rows)
}

func (m *matrix) asked(s *surface, d *rig.Dialect) bool {
	for _, f := range m.features() {
		if _, ok := m.cells[cell{s.name(), d.Name, f.name}]; ok {
			return true
		}
	}
	return false
}

func (m *matrix) mark(s *surface, d *rig.Dialect, f feature) string {
	passed, ok := m.cells[cell{s.name(), d.Name, f.name}]
	switch {
	case !s.has(f):
		return lacking
	case !ok:
		return ""
	case !passed:
		return fails
	case isRefused(f.name, d):
		return refused
	}
	if why := s.faults[f.name].why; s.fails(f.name, d.Name) {
		faults := m.notes(func(s *surface, f feature) string { return s.faults[f.name].why })
		return fmt.Sprintf("no (%d)", 1+slices.IndexFunc(faults, func(n note) bool { return n.column == f.column && n.why == why }))
	}
	return works
}
