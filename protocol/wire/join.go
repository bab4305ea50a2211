package wire

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Joiner decodes a JSON string that arrives in fragments. A fragment may end between
// the two escapes of a surrogate pair (JSN-07). The zero value is ready for use.
type Joiner struct {
	half string // the escape of a high surrogate at the end of the last fragment
}

// Next returns the text of the next fragment, which is JSON text without its quotes.
func (j *Joiner) Next(body string) string {
	if j.half == "" && strings.IndexByte(body, '\\') < 0 {
		return body
	}
	body = j.half + body
	whole := len(body)
	if endsInHighSurrogate(body) {
		whole -= len(`\ud800`)
	}
	j.half = body[whole:]
	quoted := make([]byte, 0, whole+len(`""`))
	quoted = append(append(append(quoted, '"'), body[:whole]...), '"')
	text, _ := jsontext.AppendUnquote(nil, quoted) // an unpaired surrogate becomes U+FFFD
	return string(text)
}

// Rest returns U+FFFD if the last fragment ended with half a surrogate pair, and ""
// otherwise.
func (j *Joiner) Rest() string {
	if j.half == "" {
		return ""
	}
	j.half = ""
	return "\ufffd"
}

// endsInHighSurrogate reports whether JSON text ends with the escape of a high
// surrogate.
func endsInHighSurrogate(body string) bool {
	n := len(body) - len(`\ud800`)
	if n < 0 || body[n] != '\\' || body[n+1] != 'u' || body[n+2]|0x20 != 'd' || strings.IndexByte("89abAB", body[n+3]) < 0 || !hex(body[n+4]) || !hex(body[n+5]) {
		return false
	}
	before := strings.TrimRight(body[:n], `\`)
	return (n-len(before))%2 == 0 // otherwise the backslash is itself escaped
}
