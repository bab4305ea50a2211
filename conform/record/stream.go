package record

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// fragment is a part of a text that a stream sends in several events.
type fragment struct {
	block   int // the index of the event
	edit    int // the index of the edit in its event
	channel string
	text    string
}

// fragment registers a string that is a fragment of a longer text and reports whether it is
// one. join redacts the fragments together.
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

// raw returns the JSON text of a member, or "-".
func (w *walk) raw(n *node, name string) string {
	if v := n.get(name); v != nil {
		return w.s[v.start:v.end]
	}
	return "-"
}

// stream redacts a stream of events and keeps its framing.
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

// event returns the walk of the data of one event, or nil if it is not JSON.
func (r *redactor) event(data string) *walk {
	n, err := parse(data)
	if err != nil {
		return nil
	}
	w := &walk{r: r, s: data, event: n}
	w.structure(n, place{})
	return w
}

// joined is a text whose fragments are redacted together.
type joined struct {
	whole strings.Builder
	done  string
	cut   func(int) int
	apart bool // the server sent several calls with one index: redact each fragment separately
	at    int  // the offset of the next fragment
}

// join redacts the text of each channel and splits it at the same places.
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
		if t.cut == nil { // at its first fragment, so that new names are numbered in the order of the stream
			whole := t.whole.String()
			t.apart = strings.HasPrefix(f.channel, callChannel) && !isObject(whole)
			t.done, t.cut = r.text(whole)
		}
		piece := t.done[t.cut(t.at):t.cut(t.at+len(f.text))]
		if t.at += len(f.text); t.apart {
			piece, _ = r.text(f.text)
		}
		walks[f.block].edits[f.edit].with = wire.Quote(piece)
	}
}

// callChannel is the prefix of channels that contain the arguments of a call.
const callChannel = "arguments "

func isObject(s string) bool {
	n, err := parse(s)
	return err == nil && n.kind == '{'
}

// block is an event of a stream as its lines.
type block struct {
	lines []line
	data  string // of all data lines
}

type line struct {
	text, end string
	data      bool
	space     string // after the colon
}

// bom is the byte order mark, which a stream may begin with.
const bom = "\ufeff"

// split splits a stream into blocks. Each includes the blank line that ends it.
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

// write writes the block with new data. Redacted JSON has as many lines as before.
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

// otherLine redacts a line of a stream that is not data.
func (r *redactor) otherLine(text string) string {
	if text == "" || text == bom {
		return text
	}
	name, value, ok := strings.Cut(text, ":")
	value = strings.TrimPrefix(value, " ")
	switch {
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		return r.document(text) // an error without framing
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
