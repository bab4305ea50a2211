package rig

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
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
	// The first line says by which run the section was written.
	_, have, _ = strings.Cut(strings.TrimSpace(have), "\n")
	text = strings.TrimSpace(text)
	if !*update {
		if strings.TrimSpace(have) == text {
			return
		}
		t.Errorf("the section %q of docs/evidence/compatibility.md is not what this run has done; run this test again with -update and read the difference", section)
		return
	}
	text = "\n" + testrig.NewOrigin(command(t, section)).Line() + "\n" + text + "\n\n"
	if err := os.WriteFile(path, []byte(before+begin+text+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// command returns the command that writes a section of the page.
func command(t *testing.T, section string) string {
	t.Helper()
	if section == "sign-in" {
		return "make e2e-signin WRITE=1"
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return "make e2e WRITE=1 PARTS=" + filepath.Base(dir)
}
