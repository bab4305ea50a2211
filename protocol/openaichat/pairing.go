package openaichat

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
)

// pairing says which call a result answers, and the id that both are sent with.
// Servers want the results of a turn directly behind it, each id used once.
type pairing struct {
	ids     map[*llm.ToolCall]string
	left    map[*llm.ToolCall]bool // calls that are left out
	answers map[int][]answered     // results, by the turn of their call
}

// answered is a result with its call.
type answered struct {
	result *llm.ToolResult
	id     string
	path   string
}

// asked is a call that waits for its result.
type asked struct {
	call *llm.ToolCall
	turn int
	path string
}

func (p *pairing) of(c *llm.ToolCall) string { return p.ids[c] }

// pair finds the call of every result: the nearest one before it with the same id
// that has no result yet (CRQ-02, CRQ-34).
func pair(turns []llm.Turn, report *llm.Report) *pairing {
	p := &pairing{ids: map[*llm.ToolCall]string{}, left: map[*llm.ToolCall]bool{}, answers: map[int][]answered{}}
	used := map[string]bool{}
	var open []asked
	for i := range turns {
		for j, b := range turns[i].Blocks {
			path := blockPath(i, j)
			switch b := b.(type) {
			case *llm.ToolCall:
				if !isLegacy(b.Ext) {
					p.ids[b] = freeID(b.CallID, used)
					open = append(open, asked{b, i, path})
				}
			case *llm.ToolResult:
				if !isLegacy(b.Ext) {
					open = p.answer(b, path, open, report)
				}
			}
		}
	}
	for _, a := range open {
		if a.turn+1 < len(turns) {
			report.Refuse(a.path, "tool_call.unanswered", "the call "+strconv.Quote(a.call.CallID)+" has no result; send one for every call")
			p.left[a.call] = true
		}
	}
	return p
}

func (p *pairing) answer(r *llm.ToolResult, path string, open []asked, report *llm.Report) []asked {
	for k := len(open) - 1; k >= 0; k-- {
		if open[k].call.CallID == r.CallID {
			p.answers[open[k].turn] = append(p.answers[open[k].turn], answered{r, p.ids[open[k].call], path})
			return append(open[:k], open[k+1:]...)
		}
	}
	report.Refuse(path, "tool_result.orphan", "there is no call with the id "+strconv.Quote(r.CallID)+" for this result")
	return open
}

// freeID is an id that servers take and that no other call of the conversation has.
func freeID(id string, used map[string]bool) string {
	free := llm.SafeName(id, maxID, llm.WordByte)
	for n := 2; used[free]; n++ {
		free = llm.SafeName(id+" "+strconv.Itoa(n), maxID, llm.WordByte)
	}
	used[free] = true
	return free
}

func blockPath(turn, block int) string {
	return "turns[" + strconv.Itoa(turn) + "].blocks[" + strconv.Itoa(block) + "]"
}
