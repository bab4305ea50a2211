package openairesponses

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// readPart is a part of a message or of a thought, or a call's arguments.
type readPart struct {
	key      int64 // content_index or summary_index
	form     string
	refusal  bool
	block    int // of a message's part
	ended    bool
	sent     int    // bytes of text that have been given on
	half     string // the first half of a surrogate pair, JSN-07
	cites    int
	logprobs bool
	ext      llm.Ext
}

// part finds a message's part. Servers that count content_index up with every
// delta mean the part that is open (RSP-06).
func (it *readItem) part(key int64, refusal bool) *readPart {
	for _, p := range it.parts {
		if p.key == key && p.refusal == refusal && p.form == "" {
			return p
		}
	}
	if n := len(it.parts); n > 0 && !it.parts[n-1].ended && it.parts[n-1].refusal == refusal {
		return it.parts[n-1]
	}
	return it.addPart(key, refusal)
}

func (it *readItem) addPart(key int64, refusal bool) *readPart {
	for _, p := range it.parts {
		if p.key == key && p.refusal == refusal {
			return p
		}
	}
	p := &readPart{key: key, refusal: refusal, block: -1, ext: llm.Ext{Protocol: own}}
	it.parts = append(it.parts, p)
	return p
}

// thought finds a thought's part, and which one it is.
func (it *readItem) thought(form string, key int64) (int, *readPart) {
	for i, p := range it.parts {
		if p.key == key && p.form == form {
			return i, p
		}
	}
	it.parts = append(it.parts, &readPart{key: key, form: form})
	return len(it.parts) - 1, it.parts[len(it.parts)-1]
}

// join decodes a piece of text. Half a surrogate pair at its end waits for the
// other half.
func (p *readPart) join(lit jsontext.Value) string {
	if lit.Kind() != '"' {
		return ""
	}
	if p.half == "" && !endsInHalf(lit) {
		text := unquote(lit)
		p.sent += len(text)
		return text
	}
	body := p.half + string(lit[1:len(lit)-1])
	p.half = ""
	if endsInHalf(jsontext.Value(`"` + body + `"`)) {
		p.half, body = body[len(body)-len(`\ud800`):], body[:len(body)-len(`\ud800`)]
	}
	text := unquote(jsontext.Value(`"` + body + `"`))
	p.sent += len(text)
	return text
}

// unquote decodes a JSON string.
func unquote(lit jsontext.Value) string {
	for _, c := range lit {
		if c == '\\' {
			b, _ := jsontext.AppendUnquote(nil, lit) // a lone surrogate becomes U+FFFD, JSN-06
			return string(b)
		}
	}
	return string(lit[1 : len(lit)-1])
}

// endsInHalf reports whether a literal ends in the escape of a high surrogate.
func endsInHalf(lit jsontext.Value) bool {
	n := len(lit) - len(`\ud800"`)
	if n < 1 || lit[n] != '\\' || lit[n+1] != 'u' || lit[n+2]|0x20 != 'd' {
		return false
	}
	switch lit[n+3] {
	case '8', '9', 'a', 'b', 'A', 'B':
	default:
		return false
	}
	slashes := 0
	for lit[n-slashes] == '\\' {
		slashes++
	}
	return slashes%2 == 1
}
