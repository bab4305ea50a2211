package anthropic

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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

func isResult(b llm.Block) bool {
	_, ok := b.(*llm.ToolResult)
	return ok
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
		if raw := e.result(f.at, f.r, e.pairs.ids[f.call]); raw != nil {
			out = append(out, raw)
		}
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

// freshID returns an id that the API accepts and that no earlier call uses.
// CRQ-33, CRQ-34
func freshID(c *llm.ToolCall, used protocol.UniqueIDs, turn, block int) string {
	return used.Add(func(n int) string {
		id := c.CallID
		switch {
		case n > 1:
			id += "_" + strconv.Itoa(n)
		case id == "":
			id = llm.MintID("toolu_", strconv.Itoa(turn), strconv.Itoa(block), c.Name)
		}
		return llm.SafeName(id, maxName, llm.WordByte)
	})
}

func decodeResult(meta llm.Meta, w *Block) (*llm.ToolResult, error) {
	r := &llm.ToolResult{Meta: meta, CallID: protocol.UnwrapID(w.ToolUseID.Value()), Kind: llm.FunctionTool, Failed: w.IsError.Value()}
	if r.CallID == "" { // ANT-16
		return nil, errors.New("tool_result needs the tool_use_id of its call")
	}
	c, ok := w.Content.Get()
	if r.Missing = !ok; r.Missing {
		return r, nil
	}
	if text, ok := c.Text.Get(); ok {
		r.Blocks = []llm.Block{&llm.Text{Text: text.String()}}
		return r, nil
	}
	for _, raw := range c.Blocks.Value().All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			return nil, err
		}
		r.Blocks = append(r.Blocks, b)
	}
	r.Listed = len(r.Blocks) == 0 || len(r.Blocks) == 1 && isPlain(r.Blocks[0])
	return r, nil
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

// result encodes a tool result.
func (e *requestEncoder) result(at string, r *llm.ToolResult, id string) wire.Raw {
	w := Block{Type: wire.Some("tool_result"), ToolUseID: wire.Some(id), CacheControl: e.cache(at, r.Cache), Extra: extraOf(r.Ext)}
	if r.Failed {
		w.IsError = wire.Some(true)
	}
	if !r.Missing {
		w.Content = wire.Some(e.resultContent(at, r))
	}
	if raw := e.marshal(at, &w); raw != nil {
		return raw[0]
	}
	return nil
}

func (e *requestEncoder) resultContent(at string, r *llm.ToolResult) Content {
	if len(r.Blocks) == 0 && !r.Listed {
		return Content{Text: wire.Some(wire.NewText(""))}
	}
	if len(r.Blocks) == 1 && isPlain(r.Blocks[0]) && !r.Listed {
		return Content{Text: wire.Some(wire.NewText(r.Blocks[0].(*llm.Text).Text))}
	}
	list, alone := joinBlank(r.Blocks)
	for _, k := range alone {
		e.report.Drop(protocol.At(at+".blocks", k), "turn.empty", "a text must hold more than white space")
	}
	var blocks wire.List[wire.Raw]
	for k, b := range list {
		if !isText(b, isBlank) {
			for _, raw := range e.block(protocol.At(at+".blocks", k), llm.ToolRole, b, b.Common().Cache) {
				blocks.Append(&raw)
			}
		}
	}
	return Content{Blocks: wire.Some(blocks)}
}

// arrayItems splits an array. It returns nil for other values.
func arrayItems(raw wire.Raw) []wire.Raw {
	var items []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &items, wire.Lenient) != nil {
		return nil
	}
	return items
}
