package rig

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestFaultsAreFound plants faults into good requests of agents. Facts.Wrong has each of
// them, and is empty for the samples.
func TestFaultsAreFound(t *testing.T) {
	planted := 0
	for dialect, name := range map[string]string{"openai-chat": "chat", "openai-responses": "responses", "anthropic": "anthropic", "gemini": "gemini"} {
		file, err := os.ReadFile(filepath.Join("..", "..", "conform", "testdata", "faults", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(file), "-- request --\n")
		good, _, _ := strings.Cut(rest, "-- faults of")
		_, list, _ := strings.Cut(rest, "-- faults of the agent request --\n")
		d := DialectNamed(dialect)
		if f := d.Asked(receivedOf(d, good)); len(f.Wrong) > 0 {
			t.Errorf("%s: the good request: %q", name, f.Wrong)
		}
		for line := range strings.Lines(list) {
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
	if planted < 25 {
		t.Errorf("%d faults were planted", planted)
	}
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
