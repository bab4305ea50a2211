package blockcodec

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// ObjectArgs returns a call's arguments as a JSON object, and whether they had to be wrapped. A valid object
// stays unchanged.
func ObjectArgs(args string) (wire.Raw, bool) {
	raw := wire.Raw(bytes.TrimSpace([]byte(args)))
	if len(raw) == 0 || string(raw) == "null" {
		return wire.Raw("{}"), false
	}
	if !raw.IsValid(wire.Lenient) {
		return Member("_raw", Quoted(args)), true
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
	return Member("value", raw), true
}

// Args returns a call's arguments as a JSON object.
func Args(report *llm.Report, at string, c *llm.ToolCall) wire.Raw {
	if c.Kind == llm.CustomTool {
		return Member("input", Quoted(c.Args))
	}
	raw, wrapped := ObjectArgs(c.Args)
	if wrapped {
		report.Approximate(at+".args", "args.wrapped", "arguments that are no object were put into one")
	}
	return raw
}

// IsResult reports whether a block is the result of a call.
func IsResult(b llm.Block) bool {
	_, ok := b.(*llm.ToolResult)
	return ok
}

// Pairs maps results to calls and gives both their id.
type Pairs struct {
	ids      map[*llm.ToolCall]string
	results  map[*llm.ToolResult]*llm.ToolCall
	answered map[*llm.ToolCall]bool
	order    map[*llm.ToolCall]int // the calls that are sent, in order
}

// IDs are the rules of a protocol about ids of calls.
type IDs struct {
	Prefix  string // of an id that is made here
	Longest int
	Allowed func(byte) bool
}

// of returns an id that the API accepts. n is 2 or more if earlier calls have the same. CRQ-33, CRQ-34
func (r *IDs) of(c *llm.ToolCall, turn, block, n int) string {
	id := c.CallID
	switch {
	case n > 1:
		id += "_" + strconv.Itoa(n)
	case id == "":
		id = llm.MintID(r.Prefix, strconv.Itoa(turn), strconv.Itoa(block), c.Name)
	}
	return llm.SafeName(id, r.Longest, r.Allowed)
}

// Pair finds the result of every call. A result belongs to a call of the previous assistant turn. Calls and
// results without a partner are refused, because the APIs reject them.
func Pair(turns []llm.Turn, report *llm.Report, rule IDs) Pairs {
	p := Pairs{ids: map[*llm.ToolCall]string{}, results: map[*llm.ToolResult]*llm.ToolCall{}, answered: map[*llm.ToolCall]bool{}, order: map[*llm.ToolCall]int{}}
	used := codec.UniqueIDs{}
	var calls []*llm.ToolCall            // of the previous assistant turn
	open := map[string][]*llm.ToolCall{} // those without a result, by their id
	asked := ""                          // the path of the turn with the open calls
	settle := func() {
		for _, c := range calls {
			if p.answered[c] {
				continue
			}
			report.Refuse(asked, "tool_call.unanswered", "call "+strconv.Quote(c.CallID)+" of "+c.Name+" has no result; send one")
			delete(p.order, c)
		}
		calls = nil
		clear(open)
	}
	for i, t := range turns {
		if t.Role == llm.Assistant && i > 0 && turns[i-1].Role != llm.Assistant {
			settle()
		}
		for k, b := range t.Blocks {
			switch b := b.(type) {
			case *llm.ToolCall:
				p.ids[b] = used.Add(func(n int) string { return rule.of(b, i, k, n) })
				p.order[b] = len(p.order)
				calls, open[b.CallID], asked = append(calls, b), append(open[b.CallID], b), codec.At("turns", i)
			case *llm.ToolResult:
				if !p.answer(b, open) {
					report.Refuse(codec.At("turns", i), "tool_result.orphan", "result "+strconv.Quote(b.CallID)+" matches no call of the previous turn")
				}
			}
		}
	}
	if n := len(turns); n > 0 && turns[n-1].Role != llm.Assistant {
		settle()
	}
	return p
}

// answer pairs a result with the first open call of its id. It reports false if there is none.
func (p *Pairs) answer(r *llm.ToolResult, open map[string][]*llm.ToolCall) bool {
	same := open[r.CallID]
	if len(same) == 0 {
		return false
	}
	p.results[r], p.answered[same[0]] = same[0], true
	open[r.CallID] = same[1:]
	return true
}

// ID returns the id of a call, and false if the call is not sent.
func (p *Pairs) ID(c *llm.ToolCall) (string, bool) {
	_, sent := p.order[c]
	return p.ids[c], sent
}

// Result is a result with its path and the id of its call.
type Result struct {
	*llm.ToolResult

	At, ID string
}

// Results returns the results of the turns between two assistant turns, in the order of their calls. CRQ-01,
// CRQ-02
func (p *Pairs) Results(turns []llm.Turn, from, to int) (found []Result) {
	for i := from; i < to; i++ {
		for k, b := range turns[i].Blocks {
			if r, ok := b.(*llm.ToolResult); ok && p.results[r] != nil {
				found = append(found, Result{r, codec.At(codec.At("turns", i)+".blocks", k), p.ids[p.results[r]]})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Result) int {
		return p.order[p.results[a.ToolResult]] - p.order[p.results[b.ToolResult]]
	})
	return found
}
