package llm

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Undo gives the calls in an answer the names and kinds that the client declared
// its tools with, where a request had to be sent with others. The zero value
// changes nothing.
type Undo struct {
	// Names leads from the name that the upstream knows to the client's tool.
	Names map[string]ToolRef

	open map[[2]int]*unwrapper // custom calls, by choice and block
}

// Event changes one event of a stream. It may take an event away: a part of a
// wrapped call that holds no text.
func (u *Undo) Event(e Event) (Event, bool) {
	if len(u.Names) == 0 {
		return e, true
	}
	switch e := e.(type) {
	case BlockStart:
		call, ok := e.Block.(*ToolCall)
		if !ok {
			return e, true
		}
		restored, custom := u.restore(call)
		e.Block = restored
		if custom {
			if u.open == nil {
				u.open = map[[2]int]*unwrapper{}
			}
			u.open[[2]int{e.Choice, e.Index}] = &unwrapper{}
		}
		return e, true
	case Delta:
		w := u.open[[2]int{e.Choice, e.Index}]
		if w == nil {
			return e, true
		}
		e.Text = w.next(e.Text)
		return e, e.Text != ""
	case BlockEnd:
		delete(u.open, [2]int{e.Choice, e.Index})
	}
	return e, true
}

// Response changes a whole answer.
func (u *Undo) Response(r *Response) {
	if len(u.Names) == 0 {
		return
	}
	for i := range r.Choices {
		for j, b := range r.Choices[i].Blocks {
			call, ok := b.(*ToolCall)
			if !ok {
				continue
			}
			restored, custom := u.restore(call)
			if custom {
				restored.Args = new(unwrapper).next(call.Args)
			}
			r.Choices[i].Blocks[j] = restored
		}
	}
}

func (u *Undo) restore(call *ToolCall) (restored *ToolCall, custom bool) {
	ref, ok := u.Names[call.Name]
	if !ok {
		return call, false
	}
	c := *call
	c.Name, c.Namespace = ref.Name, ref.Namespace
	custom = ref.Kind == CustomTool && c.Kind != CustomTool
	if ref.Kind != "" {
		c.Kind = ref.Kind
	}
	return &c, custom
}

// unwrapper takes the text out of {"input":"text"} while it arrives in pieces that
// may be cut anywhere, also inside an escape. What is not of that form comes out
// as it is, so that a model's mistake is seen and not swallowed.
type unwrapper struct {
	state  unwrapState
	held   string // what cannot be judged yet
	escape string // an escape that is not whole
	high   rune   // the first half of a surrogate pair
}

type unwrapState int

const (
	atStart unwrapState = iota
	inText
	afterText
	asItIs
)

func (w *unwrapper) next(s string) string {
	switch w.state {
	case atStart:
		return w.begin(s)
	case inText:
		return w.text(s)
	case asItIs:
		return s
	case afterText:
	}
	return ""
}

// begin looks for the member's opening quote.
func (w *unwrapper) begin(s string) string {
	w.held += s
	rest, ok := expect(w.held, `{`, `"input"`, `:`, `"`)
	switch {
	case ok:
		w.state, w.held = inText, ""
		return w.text(rest)
	case rest == "": // not all of it is here yet
		return ""
	}
	w.state = asItIs
	held := w.held
	w.held = ""
	return held
}

// expect passes over the tokens and the white space before them. It returns what
// follows; or an empty rest where s ends too early; or the place that does not
// fit.
func expect(s string, tokens ...string) (rest string, ok bool) {
	for _, t := range tokens {
		s = strings.TrimLeft(s, " \t\r\n")
		n := min(len(s), len(t))
		if s[:n] != t[:n] {
			return s, false
		}
		if n < len(t) {
			return "", false
		}
		s = s[n:]
	}
	return s, true
}

// text undoes the escapes of a JSON string up to its closing quote.
func (w *unwrapper) text(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case w.escape != "":
			w.escape += s[i : i+1]
			w.unescape(&b)
		case c == '\\':
			w.escape = `\`
		case c == '"':
			w.lone(&b)
			w.state = afterText
			return b.String()
		default:
			w.lone(&b)
			b.WriteByte(c)
		}
	}
	return b.String()
}

var shortEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape writes the character of an escape once it is whole.
func (w *unwrapper) unescape(b *strings.Builder) {
	if short, ok := shortEscapes[w.escape[1]]; ok {
		w.lone(b)
		b.WriteByte(short)
		w.escape = ""
		return
	}
	const whole = len(`\u0000`)
	switch {
	case w.escape[1] != 'u': // no escape of JSON's: a model's mistake, shown as it is
		w.lone(b)
		b.WriteString(w.escape)
		w.escape = ""
		return
	case len(w.escape) < whole:
		return
	}
	r := hexRune(w.escape[2:])
	w.escape = ""
	switch {
	case w.high != 0 && utf16.DecodeRune(w.high, r) != utf8.RuneError:
		b.WriteRune(utf16.DecodeRune(w.high, r))
		w.high = 0
	case utf16.IsSurrogate(r) && r < 0xdc00:
		w.lone(b)
		w.high = r
	default:
		w.lone(b)
		b.WriteRune(r) // a lone surrogate becomes U+FFFD
	}
}

// lone writes a first half that got no second.
func (w *unwrapper) lone(b *strings.Builder) {
	if w.high != 0 {
		b.WriteRune(utf8.RuneError)
		w.high = 0
	}
}

func hexRune(digits string) rune {
	var r rune
	for _, c := range digits {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= c - '0'
		case c >= 'a' && c <= 'f':
			r |= c - 'a' + 10
		case c >= 'A' && c <= 'F':
			r |= c - 'A' + 10
		default:
			return utf8.RuneError
		}
	}
	return r
}
