package record

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// redactor removes the content of the documents of one exchange. It replaces equal values
// with equal values in all documents.
type redactor struct {
	declared map[string]bool   // names of parameters
	names    map[string]string // new names of the members of free JSON
	parts    map[string]string // new parts of ids
	used     map[string]bool   // parts in use
	urls     map[string]string
}

func newRedactor() *redactor {
	return &redactor{declared: map[string]bool{}, names: map[string]string{}, parts: map[string]string{}, used: map[string]bool{}, urls: map[string]string{}}
}

// place is the position of a value in a document.
type place struct {
	name   string // the name of the member
	up     *node  // its object
	above  string // the name of the member that contains the object
	within string // the nearest of: error, usage
	choice string // the index of the choice or the candidate
	call   string // the index of the call
}

// item returns the place of an item of a list.
func (p place) item(w *walk, n *node) place {
	switch p.name {
	case "choices", "candidates":
		p.choice = w.raw(n, "index")
	case "tool_calls":
		if p.call = w.raw(n, "index"); p.call == "-" {
			p.call = w.raw(n, "id")
		}
	}
	return p
}

// document redacts a JSON document or any other text.
func (r *redactor) document(s string) string {
	n, err := parse(s)
	if err != nil {
		return maskError(s)
	}
	w := &walk{r: r, s: s}
	w.structure(n, place{})
	out, _ := apply(s, w.edits)
	return out
}

// declare collects the names of parameters from the schemas of a document. They are kept
// everywhere, because calls refer to them.
func (r *redactor) declare(s string) {
	if n, err := parse(s); err == nil {
		r.learn(n, false)
	}
}

func (r *redactor) learn(n *node, schema bool) {
	for _, v := range n.items {
		r.learn(v, schema)
	}
	for _, m := range n.members {
		if schema && schemaNames[m.name] {
			for _, p := range m.value.members {
				if isTool(p.name) {
					r.declared[p.name] = true
				}
			}
		}
		r.learn(m.value, schema || schemas[m.name])
	}
}

// name returns the new name of a member of free JSON.
func (r *redactor) name(s string) string {
	if r.declared[s] || plain[s] || s == "" {
		return s
	}
	if r.names[s] == "" {
		r.names[s] = "k" + strconv.Itoa(len(r.names)+1)
	}
	return r.names[s]
}

// id returns a new id. It replaces each part separately, so that ids with a common part
// still have one.
func (r *redactor) id(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && alnum(s[j]) {
			j++
		}
		if j > i {
			b.WriteString(r.part(s[i:j]))
			i = j
			continue
		}
		if s[i] < 0x80 {
			b.WriteByte(s[i])
		} else {
			b.WriteByte('x')
		}
		i++
	}
	return b.String()
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (r *redactor) part(s string) string {
	if prefixes[s] || len(s) == 1 && s[0] <= '9' {
		return s
	}
	if p, ok := r.parts[s]; ok {
		return p
	}
	for n := len(r.parts) + 1; ; n++ {
		p := numbered(s, n)
		if !r.used[p] {
			r.used[p], r.parts[s] = true, p
			return p
		}
	}
}

// numbered returns a number in the shape of a text: digits for digits and letters for
// letters. If the shape is too short, it appends digits.
func numbered(shape string, n int) string {
	b := []byte(shape)
	for i := len(b) - 1; i >= 0; i-- {
		first, radix := byte('0'), 10
		switch {
		case b[i] >= 'a':
			first, radix = 'a', 26
		case b[i] >= 'A':
			first, radix = 'A', 26
		}
		b[i] = first + byte(n%radix)
		n /= radix
	}
	if n > 0 {
		return string(b) + strconv.Itoa(n)
	}
	return string(b)
}

// text redacts a message text. JSON stays JSON, because gateways parse the arguments and
// results of tools and structured output.
func (r *redactor) text(s string) (string, func(int) int) {
	if mayBeJSON(s) {
		if n, err := parse(s); err == nil {
			w := &walk{r: r, s: s}
			w.free(n)
			return apply(s, w.edits)
		}
	}
	return conform.Mask(s), func(off int) int { return off }
}

func mayBeJSON(s string) bool {
	switch s = strings.TrimSpace(s); s {
	case "", "null", "true", "false":
		return s != ""
	}
	return s[0] == '{' || s[0] == '['
}

// walk collects the edits of one document.
type walk struct {
	r     *redactor
	s     string
	edits []edit
	frags []fragment // of a stream
	event *node      // the event of a stream; nil for other documents
}

func (w *walk) replace(n *node, with string) {
	w.edits = append(w.edits, edit{n.start, n.end, wire.Quote(with)})
}

// mask masks a string.
func (w *walk) mask(n *node) {
	w.edits = append(w.edits, edit{n.start + 1, n.end - 1, maskRaw(w.s[n.start+1 : n.end-1])})
}

// maskNumber masks the digits of a number.
func (w *walk) maskNumber(n *node) {
	number := conform.Mask(w.s[n.start:n.end])
	number = strings.NewReplacer("x", "e", "X", "E").Replace(number)
	w.edits = append(w.edits, edit{n.start, n.end, number})
}

// free redacts JSON that no dialect defines.
func (w *walk) free(n *node) {
	switch n.kind {
	case '{':
		for _, m := range n.members {
			if name := w.r.name(m.name); name != m.name {
				w.edits = append(w.edits, edit{m.start, m.end, wire.Quote(name)})
			}
			w.free(m.value)
		}
	case '[':
		for _, v := range n.items {
			w.free(v)
		}
	case '"':
		w.freeText(n)
	case '0':
		w.maskNumber(n)
	}
}

// billing is the prefix of a text that Claude Code adds for Anthropic only.
const billing = "x-anthropic-billing-header:"

func (w *walk) freeText(n *node) {
	if rest, ok := strings.CutPrefix(n.text, billing); ok {
		w.replace(n, billing+conform.Mask(rest))
		return
	}
	if url := w.addressed(n.text); url != "" {
		w.replace(n, url)
		return
	}
	if mayBeJSON(n.text) {
		text, _ := w.r.text(n.text)
		if text != conform.Mask(n.text) {
			w.replace(n, text)
			return
		}
	}
	w.mask(n)
}

// addressed returns the replacement of a URL or a data URL, or "" for any other text.
func (w *walk) addressed(s string) string {
	if m := dataURL.FindStringSubmatch(s); m != nil {
		return "data:" + m[1] + ";base64," + sample(m[1])
	}
	if address.MatchString(s) {
		return w.r.url(s)
	}
	return ""
}

// schema redacts a schema. It keeps keywords and names.
func (w *walk) schema(n *node, keyword string) {
	switch n.kind {
	case '{':
		for _, m := range n.members {
			if schemaNames[keyword] {
				if !w.r.declared[m.name] {
					w.edits = append(w.edits, edit{m.start, m.end, wire.Quote(w.r.name(m.name))})
				}
				w.schema(m.value, "")
				continue
			}
			w.schema(m.value, m.name)
		}
	case '[':
		for _, v := range n.items {
			w.schema(v, keyword)
		}
	case '"':
		kept := schemaWords[keyword] && reference.MatchString(n.text) && len(n.text) <= 2*most || schemaLists[keyword] && w.r.declared[n.text]
		switch {
		case kept:
		case schemaLists[keyword]:
			w.replace(n, w.r.name(n.text))
		default:
			w.mask(n)
		}
	case '0':
		if !schemaNumbers[keyword] {
			w.maskNumber(n)
		}
	}
}
