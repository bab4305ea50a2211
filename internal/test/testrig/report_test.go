package testrig

import (
	"strings"
	"testing"
	"time"
)

// TestFigures checks that a missed goal is printed and does not fail, that a problem beside it
// does, and that a failure prints the command that repeats it.
func TestFigures(t *testing.T) {
	for _, tt := range []struct {
		name, problem string
		goals         bool
		want          string
		failed        int
	}{
		{"short run", "", false, "ok   a/b", 0},
		{"full run", "", true, "goal a/b", 0},
		{"problem", "two answers", true, "FAIL a/b", 1},
	} {
		var out strings.Builder
		r := NewReport(&out)
		r.Goals = tt.goals
		r.Again = func(name string) string { return "again --only " + name }
		r.Figures("a/b", "7 ms", time.Now(), ReadCPUTime(), []string{"", "7 ms, want 5"}, "", tt.problem)
		failed, err := r.Finish()
		if err != nil || failed != tt.failed || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: %d failed, %v, want %d and %q:\n%s", tt.name, failed, err, tt.failed, tt.want, out.String())
		}
		if strings.Contains(out.String(), "want 5 (the processors") != tt.goals && tt.failed == 0 {
			t.Errorf("%s: the goal and the load:\n%s", tt.name, out.String())
		}
		if strings.Contains(out.String(), "again --only a/b\n") != (tt.failed > 0) {
			t.Errorf("%s: the command that repeats it:\n%s", tt.name, out.String())
		}
	}
}
