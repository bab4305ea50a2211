package anthropic

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
)

// pairs says which result answers which call, and under what id.
type pairs struct {
	ids     map[*llm.ToolCall]string
	results map[*llm.ToolResult]*llm.ToolCall
	order   map[*llm.ToolCall]int // the calls that may be sent, in order
}

// pair finds the results of all calls. A result answers a call of the assistant's
// last words; what remains alone cannot be sent, because the vendor refuses it.
func (e *requestEncoder) pair() {
	p := pairs{ids: map[*llm.ToolCall]string{}, results: map[*llm.ToolResult]*llm.ToolCall{}, order: map[*llm.ToolCall]int{}}
	used := map[string]bool{}
	var open []*llm.ToolCall
	asked := "" // where the open calls are
	settle := func() {
		for _, c := range open {
			e.report.Refuse(asked, "tool_call.unanswered", "call "+strconv.Quote(c.CallID)+" of "+c.Name+" has no result; send one")
			delete(p.order, c)
		}
		open = nil
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
				open, asked = append(open, b), path("turns", i)
			case *llm.ToolResult:
				if open = p.answer(b, open); p.results[b] == nil {
					e.report.Refuse(path("turns", i), "tool_result.orphan", "result "+strconv.Quote(b.CallID)+" answers no call of the turn before it")
				}
			}
		}
	}
	if n := len(e.req.Turns); n > 0 && e.req.Turns[n-1].Role != llm.Assistant {
		settle()
	}
	e.pairs = p
}

// answer gives a result to the first open call of its id, and returns the calls
// that are still open.
func (p *pairs) answer(r *llm.ToolResult, open []*llm.ToolCall) []*llm.ToolCall {
	for i, c := range open {
		if c.CallID == r.CallID {
			p.results[r] = c
			return append(open[:i:i], open[i+1:]...)
		}
	}
	return open
}

// freshID is an id that the vendor accepts and that no earlier call has. CRQ-33, CRQ-34
func freshID(c *llm.ToolCall, used map[string]bool, turn, block int) string {
	id := c.CallID
	if id == "" {
		id = llm.MintID("toolu_", strconv.Itoa(turn), strconv.Itoa(block), c.Name)
	}
	id = llm.SafeName(id, maxName, llm.WordByte)
	for n := 2; used[id]; n++ {
		id = llm.SafeName(c.CallID+"_"+strconv.Itoa(n), maxName, llm.WordByte)
	}
	used[id] = true
	return id
}
