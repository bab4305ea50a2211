package conform

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsAreFound plants faults into good samples of requests, responses, streams and
// errors. The readers accept the samples and reject each fault.
func TestFaultsAreFound(t *testing.T) {
	planted := 0
	for _, d := range Dialects() {
		sections := readFaults(t, d)
		for _, kind := range []string{"stream", "body", "error", "request", "agent", "count"} {
			good, ok := sections[kind]
			if !ok && d == Chat && kind == "count" { // which has no such request
				continue
			}
			if found := faultsOf(d, kind, good); len(found) > 0 {
				t.Errorf("%s: the good %s: %q", d, kind, found)
			}
			for line := range strings.Lines(sections["faults of the "+kind] + sections["faults of the agent "+kind]) {
				f := strings.SplitN(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "¶", "\n"), " | ", 3)
				if len(f) != 3 || !strings.Contains(good, f[1]) {
					t.Fatalf("%s: no such text in the sample: %s", d, line)
				}
				planted++
				if found := faultsOf(d, kind, strings.Replace(good, f[1], f[2], 1)); len(found) == 0 {
					t.Errorf("%s, %s: %s is not found", d, kind, f[0])
				}
			}
		}
	}
	if planted < 265 {
		t.Errorf("%d faults were planted", planted)
	}
}

// readFaults returns the sections of a file of faults.
func readFaults(t *testing.T, d Dialect) map[string]string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", "faults", string(d)+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	sections, at := map[string]string{}, ""
	for line := range strings.Lines(string(file)) {
		if head, ok := strings.CutPrefix(line, "-- "); ok {
			at = strings.TrimSuffix(head, " --\n")
		} else if line != "\n" || !strings.HasPrefix(at, "faults") {
			sections[at] += line
		}
	}
	return sections
}

// faultsOf returns what the reader of a kind finds.
func faultsOf(d Dialect, kind, text string) []string {
	switch kind {
	case "body":
		return incomplete(d.ReadBody([]byte(text)))
	case "error":
		if _, err := d.ReadError(http.StatusServiceUnavailable, []byte(text)); err != nil {
			return []string{err.Error()}
		}
		return nil
	case "request", "agent", "count":
		head, body, _ := strings.Cut(text, "\n\n")
		lines := strings.Split(head, "\n")
		h := http.Header{}
		for _, l := range lines[1:] {
			name, value, _ := strings.Cut(l, ": ")
			h.Set(name, value)
		}
		return d.ReadRequest(strings.TrimPrefix(lines[0], "POST "), h, []byte(body)).Problems
	}
	return append(CheckFraming([]byte(text)), incomplete(d.ReadText([]byte(text)))...)
}

func incomplete(r Reading) []string {
	if !r.Ended || r.Err != nil {
		return append(r.All(), "the response is not complete")
	}
	return r.All()
}
