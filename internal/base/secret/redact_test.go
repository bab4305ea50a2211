package secret

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// escaped returns a text with every byte as an escape.
func escaped(format, s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

// TestRedact checks that no form of a secret passes, and that the text around it does.
func TestRedact(t *testing.T) {
	const s = "sk-proj_a/b+c=d\"e~0123456789"
	r := NewRedactor([]string{"other-secret", s, "short"})
	basic := func(before, after string) string {
		return base64.StdEncoding.EncodeToString([]byte(before + s + after))
	}
	forms := map[string]string{
		"plain":                    s,
		"JSON":                     strings.NewReplacer(`"`, `\"`, "/", `\/`).Replace(s),
		"one JSON escape":          strings.Replace(s, "-", `\u002d`, 1),
		"JSON escapes":             escaped(`\u%04x`, s),
		"JSON escapes, upper case": escaped(`\u%04X`, s),
		"JSON in JSON":             escaped(`\\u%04x`, s),
		"percent":                  url.QueryEscape(s),
		"percent, all":             escaped("%%%02x", s),
		"percent, twice":           url.QueryEscape(url.QueryEscape(s)),
		"hexadecimal":              hex.EncodeToString([]byte(s)),
		"hexadecimal, upper case":  strings.ToUpper(hex.EncodeToString([]byte(s))),
		"base64":                   basic("", ""),
		"base64 after 1 byte":      basic(":", ""),
		"base64 after 5 bytes":     basic("user:", "more"),
		"base64 after 6 bytes":     basic("users:", "x"),
		"base64 for URLs":          base64.RawURLEncoding.EncodeToString([]byte("a:" + s)),
		"base64, escaped":          strings.ReplaceAll(basic("", ""), "=", `\u003d`),
		"twice":                    s + s,
	}
	for name, form := range forms {
		text := `{"error":"key <` + form + `> is wrong"}`
		got := string(r.Redact([]byte(text)))
		if got != `{"error":"key <***> is wrong"}` && name != "twice" || strings.Contains(got, form) {
			t.Errorf("%s: %s", name, got)
		}
		if !r.Contains(text) {
			t.Errorf("%s is not found", name)
		}
	}
	for _, text := range []string{"", "short", s[:len(s)-1], `{"a":"\u00e4 100%"}`, "%zz \\u12", "100%", `\`, base64.StdEncoding.EncodeToString([]byte(s[:8]))} {
		if got := string(r.Redact([]byte(text))); got != text || r.Contains(text) {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := string((*Redactor)(nil).Redact([]byte(s))); got != s {
		t.Error(got)
	}
}

func FuzzRedact(f *testing.F) {
	r := NewRedactor([]string{"sk-canary-0123"})
	f.Add(`{"a":"sk\u002dcanary%2d0123"}`)
	f.Add(`\u00%2`)
	f.Fuzz(func(t *testing.T, text string) {
		once := r.Redact([]byte(text))
		if strings.Contains(string(once), "sk-canary-0123") {
			t.Errorf("%q became %q", text, once)
		}
		if !r.Contains(text) && string(once) != text {
			t.Errorf("%q became %q", text, once)
		}
	})
}
