package openairesponses

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// beforeTurn is where in its note an item says which turn it stands before.
const beforeTurn = protocol.MarkPrefix + "before"

// additional reads an item that declares tools, which is how Codex declares all of
// its tools to the newest models. They are tools like any other; each has a note of
// the item and of the turn that it stands before.
func (r *inputReader) additional(raw wire.Raw) error {
	var w AdditionalTools
	if err := additionalShape.Unmarshal(raw, &w); err != nil {
		return err
	}
	o := object{}
	o.str("type", "additional_tools")
	o.opt("id", w.ID.Value())
	o.opt("role", w.Role.Value())
	o.ext(extOf(w.Extra))
	o.num(beforeTurn, int64(len(r.turns)))
	note := llm.Member{Name: additionalMark, Value: o.end()}
	declared := len(r.tools)
	for i, t := range w.Tools.Value() {
		some, err := decodeTool(t, "")
		if err != nil {
			return &wire.Error{Pointer: "/tools/" + strconv.Itoa(i), Message: err.Error()}
		}
		r.tools = append(r.tools, some...)
	}
	if declared == len(r.tools) { // nothing to call in it, but it is the client's
		r.tools = append(r.tools, hostedTool("additional_tools", "", ""))
	}
	for i := range r.tools[declared:] {
		e := &r.tools[declared+i].Ext
		e.Members = append(e.Members, note)
	}
	return nil
}

// listed is how many of the tools are in the request's own list: those of items
// come after them.
func (w *requestWriter) listed() int {
	for i := range w.req.Tools {
		if w.additionalNote(i) != "" {
			return i
		}
	}
	return len(w.req.Tools)
}

// additionalNote is what a tool has noted of its item.
func (w *requestWriter) additionalNote(tool int) llm.Raw {
	e := w.req.Tools[tool].Ext
	if !isOwn(e) {
		return ""
	}
	return e.Get(additionalMark)
}

// additional writes the items of tools that stand before a turn.
func (w *requestWriter) additional(turn int) {
	for w.declared < len(w.req.Tools) {
		from := w.declared
		note := w.additionalNote(from)
		o := object{}
		for _, m := range membersOf(note) {
			if m.Name != beforeTurn {
				o.raw(m.Name, llm.Raw(m.Value))
			} else if before, err := strconv.Atoi(string(m.Value)); err == nil && before > turn {
				return
			}
		}
		for w.declared < len(w.req.Tools) && w.additionalNote(w.declared) == note {
			w.declared++
		}
		o.raw("tools", w.toolList(from, w.declared).end())
		w.items.add(o.end())
	}
}
