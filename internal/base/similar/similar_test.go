package similar

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	known := []string{"fast", "vast", "slow", "openai/gpt-6-sol", strings.Repeat("x", 100)}
	for word, want := range map[string][]string{
		"fsat": {"fast"}, "fas": {"fast", "vast"}, "FAST": {"fast", "vast"}, "openai/gpt-6-soll": {"openai/gpt-6-sol"}, "zzzz": nil, "": nil, strings.Repeat("x", 99): nil,
	} {
		if got := Names(word, known, 3); !slices.Equal(got, want) {
			t.Errorf("%q is similar to %q, want %q", word, got, want)
		}
	}
	if got := Names("fas", known, 1); !slices.Equal(got, []string{"fast"}) {
		t.Errorf("one name: %q", got)
	}
	if got := Name("none like it", known); got != "" {
		t.Errorf("%q", got)
	}
}
