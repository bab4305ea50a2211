package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// minLength is the length of the shortest secret that is redacted. A shorter one is a
// placeholder, and may be a word of many texts.
const minLength = 6

// minBase64 is the shortest part of a base64 text that is taken for a secret.
const minBase64 = 8

// decodings is how often a text is decoded: an upstream may quote an escaped text.
const decodings = 2

// Redactor removes secrets from texts of others: as they are, with JSON or percent
// escapes, in hexadecimal and in base64, alone or after other bytes. It also removes names
// that are not secret, if it has a pattern for them. The nil Redactor has no secrets.
type Redactor struct {
	secrets  []forms
	shortest int
	names    *regexp.Regexp
}

// forms are the forms of a secret.
type forms struct {
	plain, hex []byte
	base64     [][]byte
}

// NewRedactor returns a redactor of secrets.
func NewRedactor(secrets []string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < minLength {
			continue
		}
		if r.shortest == 0 || len(s) < r.shortest {
			r.shortest = len(s)
		}
		f := forms{plain: []byte(s), hex: hex.AppendEncode(nil, []byte(s))}
		for offset := range 3 {
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				if part := base64Part(e, s, offset); len(part) >= minBase64 {
					f.base64 = append(f.base64, part)
				}
			}
		}
		r.secrets = append(r.secrets, f)
	}
	return r
}

// With returns a redactor of the secrets of both, and of the names of the first.
func (r *Redactor) With(more *Redactor) *Redactor {
	switch {
	case r == nil:
		return more
	case more == nil || len(more.secrets) == 0:
		return r
	case len(r.secrets) == 0:
		return more.WithNames(r.names)
	}
	return &Redactor{secrets: slices.Concat(r.secrets, more.secrets), shortest: min(r.shortest, more.shortest), names: r.names}
}

// WithNames returns a redactor that also replaces the matches of a pattern by …. A match of
// the pattern's first group is not replaced.
func (r *Redactor) WithNames(names *regexp.Regexp) *Redactor {
	n := *r
	n.names = names
	return &n
}

// base64Part returns the characters of a base64 text that depend only on s, if offset bytes
// precede it.
func base64Part(e *base64.Encoding, s string, offset int) []byte {
	text := e.AppendEncode(nil, append(make([]byte, offset), s...))
	return text[(offset*8+5)/6 : (offset+len(s))*8/6]
}

// Contains reports whether a text has a secret in any form.
func (r *Redactor) Contains(text string) bool {
	return r != nil && len(r.secrets) > 0 && len(text) >= r.shortest && len(r.find([]byte(text))) > 0
}

// HasNames reports whether a text has a name in any form.
func (r *Redactor) HasNames(text string) bool {
	return r != nil && r.names != nil && len(findNames(r.names, []byte(text))) > 0
}

// Redact replaces the secrets of a text by asterisks. It returns a text without secrets and
// names unchanged.
func (r *Redactor) Redact(text []byte) []byte {
	if r == nil || r.names == nil && (len(r.secrets) == 0 || len(text) < r.shortest) {
		return text
	}
	found := r.find(text)
	if r.names != nil {
		found = append(found, findNames(r.names, text)...)
	}
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out, end := make([]byte, 0, len(text)), 0
	for _, s := range found {
		if s.start >= end {
			mark := hidden
			if s.name {
				mark = "…"
			}
			out = append(append(out, text[end:s.start]...), mark...)
		}
		end = max(end, s.end)
	}
	return append(out, text[end:]...)
}

// span is a part of a text.
type span struct {
	start, end int
	name       bool // not a secret
}

// find returns the parts that are secrets, in no order.
func (r *Redactor) find(text []byte) (found []span) {
	v := view{text: text}
	for range decodings + 1 {
		lower := bytes.ToLower(v.text)
		for _, f := range r.secrets {
			found = v.find(found, v.text, f.plain, nil)
			found = v.find(found, lower, f.hex, nil)
			for _, part := range f.base64 {
				found = v.find(found, v.text, part, isBase64)
			}
		}
		next, changed := v.decode()
		if !changed {
			break
		}
		v = next
	}
	return found
}

// findNames returns the parts that match the pattern in any form of the text, in no order.
func findNames(names *regexp.Regexp, text []byte) (found []span) {
	v := view{text: text}
	for range decodings + 1 {
		for _, m := range names.FindAllSubmatchIndex(v.text, -1) {
			if len(m) < 4 || m[2] < 0 {
				found = append(found, span{start: v.origin(m[0]), end: v.origin(m[1]), name: true})
			}
		}
		next, changed := v.decode()
		if !changed {
			break
		}
		v = next
	}
	return found
}

// view is a decoded text.
type view struct {
	text []byte
	at   []int32 // where each byte begins in the original text, and its end; nil: the same place
}

// find appends the places of a needle in a form of the view's text. belongs, if not nil,
// reports bytes beside the needle that are a part of the same word.
func (v *view) find(found []span, in, needle []byte, belongs func(byte) bool) []span {
	for from := 0; ; {
		i := bytes.Index(in[from:], needle)
		if i < 0 {
			return found
		}
		start, end := from+i, from+i+len(needle)
		for belongs != nil && start > from && belongs(in[start-1]) {
			start--
		}
		for belongs != nil && end < len(in) && belongs(in[end]) {
			end++
		}
		found = append(found, span{start: v.origin(start), end: v.origin(end)})
		from = end
	}
}

func (v *view) origin(i int) int {
	if v.at == nil {
		return i
	}
	return int(v.at[i])
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_' || c == '='
}

// decode replaces JSON and percent escapes. It reports whether there were any.
func (v *view) decode() (decoded view, changed bool) {
	if bytes.IndexByte(v.text, '\\') < 0 && bytes.IndexByte(v.text, '%') < 0 {
		return view{}, false
	}
	decoded = view{text: make([]byte, 0, len(v.text)), at: make([]int32, 0, len(v.text)+1)}
	put := func(at int) { decoded.at = append(decoded.at, int32(at)) }
	for i := 0; i < len(v.text); {
		r, size := unescape(v.text[i:])
		if size == 0 {
			decoded.text = append(decoded.text, v.text[i])
			put(v.origin(i))
			i++
			continue
		}
		changed = true
		before := len(decoded.text)
		if v.text[i] == '%' {
			decoded.text = append(decoded.text, byte(r))
		} else {
			decoded.text = utf8.AppendRune(decoded.text, r)
		}
		for range len(decoded.text) - before {
			put(v.origin(i))
		}
		i += size
	}
	put(v.origin(len(v.text)))
	return decoded, changed
}

// unescape returns the character that an escape at the beginning of a text stands for, and
// the escape's size; 0: there is none.
func unescape(text []byte) (r rune, size int) {
	digits := func(from, to int) (rune, int) {
		if len(text) < to {
			return 0, 0
		}
		n, err := strconv.ParseUint(string(text[from:to]), 16, 32)
		if err != nil {
			return 0, 0
		}
		return rune(n), to
	}
	switch {
	case len(text) < 2:
		return 0, 0
	case text[0] == '%':
		return digits(1, 3)
	case text[0] != '\\':
		return 0, 0
	case text[1] == 'u':
		return digits(2, 6)
	case bytes.IndexByte([]byte(`"\/`), text[1]) >= 0:
		return rune(text[1]), 2
	}
	return 0, 0
}
