package llm

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Undo restores the client's tool names and kinds in the tool calls of a response,
// for a request that was sent upstream with other names. The zero value changes
// nothing.
type Undo struct {
	// Names maps a name sent upstream to the client's tool.
	Names map[string]ToolRef

	open map[[2]int]*unwrapper // open calls of custom tools, by choice and block
}

// Event returns the restored event. It reports false if the event is to be left out,
// because it held only the JSON around a custom tool's input.
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

// Response restores the tool calls of a complete response.
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

// unwrapper extracts text from {"input":"text"}, which arrives in fragments that may
// be cut anywhere, even inside an escape. It passes any other JSON through unchanged,
// so that the client sees a model's mistake.
type unwrapper struct {
	state  unwrapState
	held   []byte // the input so far, in state atStart
	token  int    // of wrapping, in state atStart
	match  int    // bytes of the token that have come
	escape string // an incomplete escape sequence
	high   rune   // the first half of a surrogate pair
}

type unwrapState int

const (
	atStart unwrapState = iota
	inText
	afterText
	passThrough
)

func (w *unwrapper) next(s string) string {
	switch w.state {
	case atStart:
		return w.begin(s)
	case inText:
		return w.text(s)
	case passThrough:
		return s
	case afterText:
	}
	return ""
}

// wrapping are the tokens before the text. White space may come before each.
var wrapping = [...]string{`{`, `"input"`, `:`, `"`}

// begin looks for the opening quote of the input. It reads each byte once.
func (w *unwrapper) begin(s string) string {
	for i := range len(s) {
		switch token := wrapping[w.token]; {
		case s[i] == token[w.match]:
			if w.match++; w.match < len(token) {
				continue
			}
			if w.token, w.match = w.token+1, 0; w.token == len(wrapping) {
				w.state, w.held = inText, nil
				return w.text(s[i+1:])
			}
		case w.match > 0 || strings.IndexByte(" \t\r\n", s[i]) < 0:
			held := string(w.held)
			w.state, w.held = passThrough, nil
			return held + s
		}
	}
	w.held = append(w.held, s...)
	return ""
}

// text decodes a JSON string up to its closing quote.
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

// unescape writes the character of the escape sequence if that is complete.
func (w *unwrapper) unescape(b *strings.Builder) {
	if short, ok := shortEscapes[w.escape[1]]; ok {
		w.lone(b)
		b.WriteByte(short)
		w.escape = ""
		return
	}
	const complete = len(`\u0000`)
	switch {
	case w.escape[1] != 'u': // a model's mistake, passed through unchanged
		w.lone(b)
		b.WriteString(w.escape)
		w.escape = ""
		return
	case len(w.escape) < complete:
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

// lone writes U+FFFD if the first half of a surrogate pair has no second half.
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
