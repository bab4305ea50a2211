package rig

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what this run has done into docs/evidence/compatibility.md")

// Updates reports whether this run writes its section of the page.
func Updates() bool { return *update }

// Page holds that a section of docs/evidence/compatibility.md is what this run has done, or
// writes it with -update. A section stands between two comments with its name.
func Page(t *testing.T, section, text string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "evidence", "compatibility.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+section+": written by the end-to-end tests, do not edit -->\n", "<!-- end of "+section+" -->\n"
	before, rest, found := strings.Cut(string(page), begin)
	have, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("docs/evidence/compatibility.md has no section between\n%sand\n%s", begin, end)
	}
	text = "\n" + strings.TrimSpace(text) + "\n\n"
	if have == text {
		return
	}
	if !*update {
		t.Errorf("the section %q of docs/evidence/compatibility.md is not what this run has done; run this test again with -update and read the difference", section)
		return
	}
	if err := os.WriteFile(path, []byte(before+begin+text+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
