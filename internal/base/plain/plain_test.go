package plain

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"Ann Example":           "Ann Example",
		"Ünï 漢字 🙂":              "Ünï 漢字 🙂",
		"a\x1b[31mb":            "a\uFFFD[31mb",
		"a\nb\r\tc":             "a\uFFFDb\uFFFD\uFFFDc",
		"a\u202eb\u2066\u200fc": "a\uFFFDb\uFFFD\uFFFDc",
		"a\u2028b\u0085c\x7f":   "a\uFFFDb\uFFFDc\uFFFD",
		"a\u200bb\ufeff":        "a\uFFFDb\uFFFD",
		"a\xff\xc0":             "a\uFFFD\uFFFD",
	} {
		if got := Line(text); got != want || !IsLine(got) || IsLine(text) != (got == text) {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := Short("añb\n漢字", 4); got != "añb\uFFFD…" {
		t.Errorf("%q", got)
	}
}

// TestWord checks that prose is hidden and identifiers are kept.
func TestWord(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "stop": "stop", "tool_calls": "tool_calls", "req_01Ab-9:z/x@v+1=": "req_01Ab-9:z/x@v+1=",
		"max tokens": Other, "stop\n": Other, "停": Other, "\xff": Other, strings.Repeat("a", 129): Other,
	} {
		if got := Word(s); got != want {
			t.Errorf("Word(%q) = %q, want %q", s, got, want)
		}
	}
}
