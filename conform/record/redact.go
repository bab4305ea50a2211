package record

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
)

// redactor takes what can be read out of the documents of one exchange. It treats
// the same thing alike wherever it stands.
type redactor struct {
	declared map[string]bool   // names of parameters
	names    map[string]string // of members of free JSON, and what they are called now
	parts    map[string]string // of ids
	used     map[string]bool   // parts that are taken
	urls     map[string]string
}

func newRedactor() *redactor {
	return &redactor{declared: map[string]bool{}, names: map[string]string{}, parts: map[string]string{}, used: map[string]bool{}, urls: map[string]string{}}
}

// place is where a value stands.
type place struct {
	name   string // of the member
	up     *node  // the object that it is a member of
	above  string // the name of that object's member
	within string // the nearest of: error, usage
	choice string // the index of the choice or the candidate
	call   string // the index of the call
}

// item is the place of an item of a list.
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

// document redacts a JSON document, or a text that is none.
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

// declare learns the names of parameters from the schemas of a document: they are
// kept wherever they stand, because a call means nothing without them.
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

// name is what a member of free JSON is called.
func (r *redactor) name(s string) string {
	if r.declared[s] || plain[s] || s == "" {
		return s
	}
	if r.names[s] == "" {
		r.names[s] = "k" + strconv.Itoa(len(r.names)+1)
	}
	return r.names[s]
}

// id gives an id another number. Its parts are treated apart, so that an id that was
// made from another one is still seen to be.
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

// numbered writes a number in the shape of a text: digits for digits and letters for
// letters. Where the shape is too small for it, more digits follow.
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

// text redacts what somebody has said. A text that is JSON stays so: arguments and
// results of tools and answers with a schema are read by gateways.
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

// walk goes through one document and gathers its edits.
type walk struct {
	r     *redactor
	s     string
	edits []edit
	frags []fragment // of streams
	event *node      // of which stream; nil for a whole document
}

func (w *walk) replace(n *node, with string) {
	w.edits = append(w.edits, edit{n.start, n.end, quote(with)})
}

// mask masks a string in its place.
func (w *walk) mask(n *node) {
	w.edits = append(w.edits, edit{n.start + 1, n.end - 1, maskRaw(w.s[n.start+1 : n.end-1])})
}

// maskNumber keeps the shape of a number.
func (w *walk) maskNumber(n *node) {
	number := conform.Mask(w.s[n.start:n.end])
	number = strings.NewReplacer("x", "e", "X", "E").Replace(number)
	w.edits = append(w.edits, edit{n.start, n.end, number})
}

// free redacts JSON that belongs to no dialect.
func (w *walk) free(n *node) {
	switch n.kind {
	case '{':
		for _, m := range n.members {
			if name := w.r.name(m.name); name != m.name {
				w.edits = append(w.edits, edit{m.start, m.end, quote(name)})
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

// billing begins a text that one vendor's client adds and no other vendor is sent.
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

// addressed is what takes the place of an address or of a value inside of one; empty
// where a text is neither.
func (w *walk) addressed(s string) string {
	if m := dataURL.FindStringSubmatch(s); m != nil {
		return "data:" + m[1] + ";base64," + sample(m[1])
	}
	if address.MatchString(s) {
		return w.r.url(s)
	}
	return ""
}

// schema redacts a schema: its keywords and names are kept.
func (w *walk) schema(n *node, keyword string) {
	switch n.kind {
	case '{':
		for _, m := range n.members {
			if schemaNames[keyword] {
				if !w.r.declared[m.name] {
					w.edits = append(w.edits, edit{m.start, m.end, quote(w.r.name(m.name))})
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
