package converse

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// objectArgs returns a call's arguments as a JSON object, and whether they had to
// be wrapped. A valid object stays unchanged.
func objectArgs(args string) (wire.Raw, bool) {
	raw := wire.Raw(bytes.TrimSpace([]byte(args)))
	if len(raw) == 0 || string(raw) == "null" {
		return wire.Raw("{}"), false
	}
	if !raw.IsValid(wire.Lenient) {
		return member("_raw", quoted(args)), true
	}
	switch raw = wire.WholeText(raw); raw.Kind() {
	case '{':
		return raw, false
	case '"':
		var inner string
		if json.Unmarshal(raw, &inner, wire.Lenient) == nil {
			if v := wire.Raw(inner); v.IsValid(wire.Lenient) && v.Kind() == '{' {
				return wire.WholeText(v), true
			}
		}
	default:
	}
	return member("value", raw), true
}

// results encodes the results between two assistant turns in the order of their
// calls. CRQ-01, CRQ-02
func (e *requestEncoder) results(from, to int) []wire.Raw {
	type result struct {
		at   string
		r    *llm.ToolResult
		call *llm.ToolCall
	}
	var found []result
	for i := from; i < to; i++ {
		for k, b := range e.req.Turns[i].Blocks {
			if r, ok := b.(*llm.ToolResult); ok && e.pairs.results[r] != nil {
				found = append(found, result{protocol.At(protocol.At("turns", i)+".blocks", k), r, e.pairs.results[r]})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b result) int { return e.pairs.order[a.call] - e.pairs.order[b.call] })
	out := make([]wire.Raw, 0, len(found))
	for _, f := range found {
		out = append(out, e.result(f.at, f.r, e.pairs.ids[f.call])...)
	}
	return out
}

// pairs maps results to calls and gives both their id.
type pairs struct {
	ids      map[*llm.ToolCall]string
	results  map[*llm.ToolResult]*llm.ToolCall
	answered map[*llm.ToolCall]bool
	order    map[*llm.ToolCall]int // the calls that are sent, in order
}

// pair finds the result of every call. A result belongs to a call of the previous
// assistant turn. Calls and results without a partner are dropped, because the
// API rejects them.
func (e *requestEncoder) pair() {
	p := pairs{ids: map[*llm.ToolCall]string{}, results: map[*llm.ToolResult]*llm.ToolCall{}, answered: map[*llm.ToolCall]bool{}, order: map[*llm.ToolCall]int{}}
	used := protocol.UniqueIDs{}
	var calls []*llm.ToolCall            // of the previous assistant turn
	open := map[string][]*llm.ToolCall{} // those without a result, by their id
	asked := ""                          // the path of the turn with the open calls
	settle := func() {
		for _, c := range calls {
			if p.answered[c] {
				continue
			}
			e.report.Refuse(asked, "tool_call.unanswered", "call "+strconv.Quote(c.CallID)+" of "+c.Name+" has no result; send one")
			delete(p.order, c)
		}
		calls = nil
		clear(open)
	}
	for i, t := range e.req.Turns {
		if t.Role == llm.Assistant && i > 0 && e.req.Turns[i-1].Role != llm.Assistant {
			settle()
		}
		for k, b := range t.Blocks {
			switch b := b.(type) {
			case *llm.ToolCall:
				p.ids[b] = freshID(b, used, i, k)
				p.order[b] = len(p.order)
				calls, open[b.CallID], asked = append(calls, b), append(open[b.CallID], b), protocol.At("turns", i)
			case *llm.ToolResult:
				if !p.answer(b, open) {
					e.report.Refuse(protocol.At("turns", i), "tool_result.orphan", "result "+strconv.Quote(b.CallID)+" matches no call of the previous turn")
				}
			}
		}
	}
	if n := len(e.req.Turns); n > 0 && e.req.Turns[n-1].Role != llm.Assistant {
		settle()
	}
	e.pairs = p
}

// answer pairs a result with the first open call of its id. It reports false if there is
// none.
func (p *pairs) answer(r *llm.ToolResult, open map[string][]*llm.ToolCall) bool {
	same := open[r.CallID]
	if len(same) == 0 {
		return false
	}
	p.results[r], p.answered[same[0]] = same[0], true
	open[r.CallID] = same[1:]
	return true
}

// maxID is the maximum length of a call's id.
const maxID = 64

// idByte reports whether an id of a call may contain a byte.
func idByte(b byte) bool { return llm.WordByte(b) || b == '.' || b == ':' }

// freshID returns an id that the API accepts and that no earlier call uses.
func freshID(c *llm.ToolCall, used protocol.UniqueIDs, turn, block int) string {
	return used.Add(func(n int) string {
		id := c.CallID
		switch {
		case n > 1:
			id += "_" + strconv.Itoa(n)
		case id == "":
			id = llm.MintID("tooluse_", strconv.Itoa(turn), strconv.Itoa(block), c.Name)
		}
		return llm.SafeName(id, maxID, idByte)
	})
}

// args encodes a call's arguments as a JSON object.
func (e *requestEncoder) args(at string, c *llm.ToolCall) wire.Raw {
	if c.Kind == llm.CustomTool {
		return member("input", quoted(c.Args))
	}
	raw, wrapped := objectArgs(c.Args)
	if wrapped {
		e.report.Approximate(at+".args", "args.wrapped", "arguments that are no object were put into one")
	}
	return raw
}

// result encodes a tool result, and its cache mark after it.
func (e *requestEncoder) result(at string, r *llm.ToolResult, id string) []wire.Raw {
	w := ToolResult{ToolUseID: wire.Some(id), Content: wire.Some(e.resultContent(at, r)), Extra: extraOf(withoutMarks(r.Ext))}
	if r.Failed {
		w.Status = wire.Some("error")
	} else if r.Ext.Protocol == own {
		w.Status = wire.NonZero(wire.Unquote(wire.Raw(r.Ext.Get(protocol.MarkPrefix + statusMark))))
	}
	out := e.marshal(at, &Block{ToolResult: wire.Some(w)})
	if mark := resultMark(r); mark != nil && out != nil {
		out = append(out, e.cachePoint(at, mark))
	}
	return out
}

// resultMark returns the cache mark of a result, or the last one in its content, where the
// protocol has none.
func resultMark(r *llm.ToolResult) *llm.CacheMark {
	mark := r.Cache
	for _, b := range r.Blocks {
		if c := b.Common().Cache; c != nil && r.Cache == nil {
			mark = c
		}
	}
	return mark
}

func (e *requestEncoder) resultContent(at string, r *llm.ToolResult) wire.List[wire.Raw] {
	list, alone := joinBlank(r.Blocks)
	if len(r.Blocks) > 1 { // a single blank text is an empty result
		for _, k := range alone {
			e.report.Drop(protocol.At(at+".blocks", k), "turn.empty", "a text must hold more than white space")
		}
	}
	var blocks wire.List[wire.Raw]
	for k, b := range list {
		at := protocol.At(at+".blocks", k)
		if isText(b, isBlank) {
			continue
		}
		if m, ok := b.(*llm.Media); ok && m.Kind == llm.Audio {
			e.report.Refuse(at, "media.unsupported", "a tool result cannot hold audio")
			continue
		}
		for _, raw := range e.block(at, llm.ToolRole, b) {
			blocks.Append(&raw)
		}
	}
	return blocks
}

func refOf(c *llm.ToolCall) llm.ToolRef {
	return llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace}
}
