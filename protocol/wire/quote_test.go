package wire

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzAppendQuote compares AppendQuote and NewText with the JSON library.
func FuzzAppendQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "eight888", "a \"quoted\" word", `back\slash`, "line\nline\r\n\tline", "\x00\x01\x1f\x7f", "Grüße, 世界 🎉",
		"\u2028\u2029<>&", "cut \xe4\xb8", "\xff", strings.Repeat("x", 100) + "\"", "1234567\n", "12345678\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, wantErr := jsontext.AppendQuote([]byte("before "), s)
		got, err := appendQuote([]byte("before "), s)
		if string(got) != string(want) || (err == nil) != (wantErr == nil) {
			t.Errorf("appendQuote(%q) = %s, %v; want %s, %v", s, got, err, want, wantErr)
		}
		lit, _ := NewText(s).MarshalJSON()
		if string(lit) != string(want[len("before "):]) {
			t.Errorf("NewText(%q) is written as %s, want %s", s, lit, want)
		}
	})
}

func BenchmarkAppendQuote(b *testing.B) {
	text := strings.Repeat("A line of a prompt with \"quotes\" and an end.\n", 4000)
	dst := make([]byte, 0, 2*len(text))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		dst = AppendQuote(dst[:0], text)
	}
}
