package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/compatibility.md")

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
			if s.has(f) {
				all += len(dialects())
			}
		}
	}
	if done < all { // -run has left some out
		if *update {
			t.Error("only a run of the whole matrix may write docs/compatibility.md")
		}
		return
	}
	page, path := m.page(), filepath.Join("..", "docs", "compatibility.md")
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != page {
		t.Errorf("docs/compatibility.md is not what this run has done; run go test -run TestMatrix -update and read the difference (%v)", err)
	}
}

func (m *matrix) page() string {
	ok := 0
	for _, passed := range m.cells {
		if passed {
			ok++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Compatibility

<!-- Written by a run of the end-to-end tests, go test -run TestMatrix -update in e2e/; do not edit. -->

The vendors' own SDKs, unchanged but for the base URL, on upstreams that speak each of the four dialects, through one
gateway. Each row is an SDK's API on an upstream; each mark was put there by a run that did it: %d of %d work. The upstream is
scripted and plays the vendor's server; besides what the SDK reports, a run holds that the upstream was asked what the user
asked, with the provider's key, and that an upstream of the SDK's own dialect gets the SDK's own bytes.

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
			b.WriteString("\n## Where the SDK falls short\n\n")
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
		for _, d := range dialects() {
			if !m.asked(s, d) {
				continue
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |", languages[s.language], s.sdk, s.version, s.dialect, d.name)
			for _, f := range features() {
				b.WriteString(" " + m.mark(s, d, f) + " |")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (m *matrix) asked(s *surface, d *dialect) bool {
	for _, f := range features() {
		if _, ok := m.cells[cell{s.name(), d.name, f.name}]; ok {
			return true
		}
	}
	return false
}

func (m *matrix) mark(s *surface, d *dialect, f feature) string {
	passed, ok := m.cells[cell{s.name(), d.name, f.name}]
	switch {
	case !s.has(f):
		return lacking
	case !ok:
		return ""
	case !passed:
		return fails
	case f.name == "count_tokens" && d.counted == "":
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
