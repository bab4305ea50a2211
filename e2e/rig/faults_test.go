package rig

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestFaultsAreFound plants faults into good requests. Facts.Wrong has each of them, and is
// empty for the samples.
func TestFaultsAreFound(t *testing.T) {
	planted := 0
	for dialect, name := range map[string]string{"openai-chat": "chat", "openai-responses": "responses", "anthropic": "anthropic", "gemini": "gemini", "converse": "converse"} {
		file, err := os.ReadFile(filepath.Join("..", "..", "conform", "testdata", "faults", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		d, sections := DialectNamed(dialect), sectionsOf(string(file))
		for _, kind := range []string{"request", "agent", "count"} {
			good := sections[kind]
			if f := d.Asked(receivedOf(d, good)); good != "" && len(f.Wrong) > 0 {
				t.Errorf("%s: the good %s: %q", name, kind, f.Wrong)
			}
			for line := range strings.Lines(sections["faults of the "+kind] + sections["faults of the agent "+kind]) {
				f := strings.SplitN(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "¶", "\n"), " | ", 3)
				if len(f) != 3 || !strings.Contains(good, f[1]) {
					t.Fatalf("no such text in the sample: %s", line)
				}
				planted++
				if facts := d.Asked(receivedOf(d, strings.Replace(good, f[1], f[2], 1))); len(facts.Wrong) == 0 {
					t.Errorf("%s: %s is not found", name, f[0])
				}
			}
		}
	}
	if planted < 126 {
		t.Errorf("%d faults were planted", planted)
	}
}

// sectionsOf returns the sections of a file of faults, without the blank lines between them.
func sectionsOf(file string) map[string]string {
	sections, at := map[string]string{}, ""
	for line := range strings.Lines(file) {
		if head, ok := strings.CutPrefix(line, "-- "); ok {
			at = strings.TrimSuffix(head, " --\n")
		} else if line != "\n" || !strings.HasPrefix(at, "faults") {
			sections[at] += line
		}
	}
	return sections
}

func receivedOf(d *Dialect, text string) *Received {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	path := strings.TrimPrefix(lines[0], "POST ")
	prefix := d.Prefix
	if strings.HasPrefix(path, "/v1/") { // some prefixes end in it
		prefix = strings.TrimSuffix(prefix, "/v1")
	}
	c := &testrig.Call{URI: prefix + path, Body: []byte(body), Header: http.Header{}}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		c.Header.Set(name, value)
	}
	return &Received{Call: c, Ended: make(chan struct{})}
}
