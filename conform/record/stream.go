package record

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
)

// fragment is a piece of a text that a stream brings in several.
type fragment struct {
	block   int // of the stream
	edit    int // of the block's edits
	channel string
	text    string
}

// fragment takes a string that is a piece of something larger. What it becomes is
// known when all pieces are.
func (w *walk) fragment(n *node, at place) bool {
	if w.event == nil {
		return false
	}
	var channel string
	kind := w.event.word("type")
	switch {
	case kind == "content_block_delta" && at.above == "delta" && (at.name == "text" || at.name == "partial_json" || at.name == "thinking"):
		channel = at.name + " " + w.raw(w.event, "index")
	case strings.HasSuffix(kind, ".delta") && at.name == "delta" && at.up == w.event:
		channel = kind + " " + w.raw(w.event, "item_id") + w.raw(w.event, "output_index") + " " + w.raw(w.event, "content_index") + w.raw(w.event, "summary_index")
	case at.above == "delta" && (at.name == "content" || at.name == "reasoning_content" || at.name == "reasoning" || at.name == "refusal"):
		channel = at.name + " " + at.choice
	case at.above == "function" && at.name == "arguments":
		channel = callChannel + at.choice + " " + at.call
	case at.above == "parts" && at.name == "text":
		channel = "parts " + w.raw(at.up, "thought") + at.choice
	default:
		return false
	}
	w.edits = append(w.edits, edit{n.start, n.end, ""})
	w.frags = append(w.frags, fragment{edit: len(w.edits) - 1, channel: channel, text: n.text})
	return true
}

// raw is a member as it is written.
func (w *walk) raw(n *node, name string) string {
	if v := n.get(name); v != nil {
		return w.s[v.start:v.end]
	}
	return "-"
}

// stream redacts a stream of events. Its framing is left as it is.
func (r *redactor) stream(s string) string {
	blocks := split(s)
	walks := make([]*walk, len(blocks))
	var all []fragment
	for i, b := range blocks {
		if walks[i] = r.event(b.data); walks[i] == nil {
			continue
		}
		for _, f := range walks[i].frags {
			f.block = i
			all = append(all, f)
		}
	}
	r.join(all, walks)
	var out strings.Builder
	for i, b := range blocks {
		data := b.data
		switch {
		case walks[i] != nil:
			data, _ = apply(data, walks[i].edits)
		case strings.TrimSpace(data) != "[DONE]":
			data = conform.Mask(data)
		}
		r.write(&out, b, data)
	}
	return out.String()
}

// event walks through the data of one event; nil where it is no JSON.
func (r *redactor) event(data string) *walk {
	n, err := parse(data)
	if err != nil {
		return nil
	}
	w := &walk{r: r, s: data, event: n}
	w.structure(n, place{})
	return w
}

// joined is a text that came in pieces, redacted as a whole.
type joined struct {
	whole strings.Builder
	done  string
	cut   func(int) int
	apart bool // several calls that a server did not tell apart: each piece is its own
	at    int  // of the next piece
}

// join redacts each text as a whole and cuts it where it was cut.
func (r *redactor) join(all []fragment, walks []*walk) {
	texts := map[string]*joined{}
	for _, f := range all {
		if texts[f.channel] == nil {
			texts[f.channel] = &joined{}
		}
		texts[f.channel].whole.WriteString(f.text)
	}
	for _, f := range all {
		t := texts[f.channel]
		if t.cut == nil { // in the order of the stream, so that names are numbered in it
			whole := t.whole.String()
			t.apart = strings.HasPrefix(f.channel, callChannel) && !isObject(whole)
			t.done, t.cut = r.text(whole)
		}
		piece := t.done[t.cut(t.at):t.cut(t.at+len(f.text))]
		if t.at += len(f.text); t.apart {
			piece, _ = r.text(f.text)
		}
		walks[f.block].edits[f.edit].with = quote(piece)
	}
}

// callChannel begins the names of channels that hold a call's arguments.
const callChannel = "arguments "

func isObject(s string) bool {
	n, err := parse(s)
	return err == nil && n.kind == '{'
}

// block is an event of a stream with its lines.
type block struct {
	lines []line
	data  string // of all data lines
}

type line struct {
	text, end string
	data      bool
	space     string // after the colon
}

// bom may begin a stream.
const bom = "\ufeff"

// split cuts a stream into blocks, each with the blank line that ends it.
func split(s string) []block {
	var all []block
	var b block
	var data []string
	if rest, ok := strings.CutPrefix(s, bom); ok {
		b.lines, s = append(b.lines, line{text: bom}), rest
	}
	for s != "" {
		text, end := cutLine(s)
		s = s[len(text)+len(end):]
		l := line{text: text, end: end}
		if value, ok := strings.CutPrefix(text, "data:"); ok {
			l.data = true
			if rest, ok := strings.CutPrefix(value, " "); ok {
				l.space, value = " ", rest
			}
			data = append(data, value)
		}
		b.lines = append(b.lines, l)
		if text == "" || s == "" {
			b.data = strings.Join(data, "\n")
			all, b, data = append(all, b), block{}, nil
		}
	}
	return all
}

func cutLine(s string) (text, end string) {
	i := strings.IndexAny(s, "\r\n")
	switch {
	case i < 0:
		return s, ""
	case strings.HasPrefix(s[i:], "\r\n"):
		return s[:i], "\r\n"
	}
	return s[:i], s[i : i+1]
}

// write writes the block with other data. JSON keeps its line ends, so there are as
// many lines as there were.
func (r *redactor) write(out *strings.Builder, b block, data string) {
	rest := strings.Split(data, "\n")
	for _, l := range b.lines {
		switch {
		case l.data && len(rest) > 0:
			out.WriteString("data:" + l.space + rest[0])
			rest = rest[1:]
		case l.data:
			out.WriteString("data:")
		default:
			out.WriteString(r.otherLine(l.text))
		}
		out.WriteString(l.end)
	}
}

// otherLine is a line of a stream that is no data.
func (r *redactor) otherLine(text string) string {
	if text == "" || text == bom {
		return text
	}
	name, value, ok := strings.Cut(text, ":")
	value = strings.TrimPrefix(value, " ")
	switch {
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		return r.document(text) // an error that was not framed
	case !ok:
		return conform.Mask(text)
	case name == "event" && isWord(value):
		return text
	case name == "retry":
		if _, err := strconv.Atoi(value); err == nil {
			return text
		}
	case name == "event" || name == "id" || name == "":
		return name + ":" + conform.Mask(strings.TrimPrefix(text, name+":"))
	}
	return conform.Mask(text)
}
