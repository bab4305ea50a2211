package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRecording runs the script that makes the README's picture of a terminal, and compares the texts of both pictures.
func TestRecording(t *testing.T) {
	_, ports := freePorts(t, 4)
	picture := filepath.Join(t.TempDir(), "recording.svg")
	cmd := exec.Command("bash", filepath.Join(root, "examples/recording/run.sh"), binary, picture)
	cmd.Env = append(os.Environ(), "PORTS="+ports)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, want := terminal(read(t, picture)), terminal(read(t, filepath.Join(root, "docs/recording.svg")))
	if len(want) < 10 {
		t.Fatalf("docs/recording.svg has %d lines", len(want))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("the run shows\n%s\n\nand docs/recording.svg\n%s\n\n`make recording` writes it again", g, w)
	}
}

// terminal returns the lines of a picture, without what differs in each run: the id of the key.
func terminal(svg string) (lines []string) {
	for _, m := range regexp.MustCompile(`<text [^>]*>(.*?)</text>`).FindAllStringSubmatch(svg, -1) {
		lines = append(lines, regexp.MustCompile(`key:\w{4}…`).ReplaceAllString(m[1], "key:…"))
	}
	return lines
}
