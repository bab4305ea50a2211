package gemini

import (
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

const (
	roleUser  = "user"
	roleModel = "model"
)

// opening stands before a conversation that the assistant begins, which the API
// does not take.
const opening = "(the conversation begins)"

// turns writes all turns from the first on.
func (w *writer) turns(first int) {
	turns := w.req.Turns
	for i := first; i < len(turns); {
		if turns[i].Role == llm.Assistant {
			i = w.answer(i)
			continue
		}
		w.turn(i)
		i++
	}
}

// turn writes what the user or the operator says.
func (w *writer) turn(i int) {
	t := &w.req.Turns[i]
	path := at("turns", i)
	c := content{own: t.Ext.Protocol == own, Content: Content{Role: wire.Some(roleUser), Extra: extra(t.Ext, "")}}
	for j, b := range t.Blocks {
		at := path + "." + at("blocks", j)
		switch b := b.(type) {
		case *llm.ToolResult:
			if !w.answered[b] {
				w.report.Refuse(at, "tool_result.orphan", "no call before it has the id "+strconv.Quote(b.CallID))
			}
		case *llm.Text:
			if t.Role != llm.User && t.Role != llm.ToolRole && b.Text != "" {
				b = &llm.Text{Meta: b.Meta, Text: "<system>" + b.Text + "</system>"}
				c.own = false
				w.report.Approximate(at, "system.mid_folded", "system text in mid-conversation is a marked text of the user")
			}
			c.parts = append(c.parts, w.part(b, at)...)
		default:
			c.parts = append(c.parts, w.part(b, at)...)
		}
	}
	if t.Role == llm.ToolRole && len(c.parts) == 0 {
		return // its results stand behind their calls
	}
	if t.Joined && c.own && len(w.contents) > 0 && w.contents[len(w.contents)-1].own {
		last := &w.contents[len(w.contents)-1]
		last.parts = append(last.parts, c.parts...)
		return
	}
	w.add(c)
}

// add appends a content. Neighbours of one role become one, because roles have to
// take turns (CRQ-12); results of functions stay alone (GEM-05), and what a
// client of this protocol has sent stays as it is.
func (w *writer) add(c content) {
	if len(c.parts) == 0 && !c.own {
		return
	}
	if len(w.contents) == 0 && c.Role.Value() == roleModel && !c.own {
		w.report.Approximate("turns", "turns.user_inserted", "a text of the user stands before the assistant's first")
		w.contents = append(w.contents, content{Content: Content{Role: wire.Some(roleUser)},
			parts: []Part{{Text: wire.Some(wire.NewText(opening))}}})
	}
	if n := len(w.contents); n > 0 {
		last := &w.contents[n-1]
		if last.Role.Value() == c.Role.Value() && !last.results && !c.results && (!last.own || !c.own) {
			last.parts = append(last.parts, c.parts...)
			return
		}
	}
	w.contents = append(w.contents, c)
}

// answer writes an assistant's turns that follow each other, and the results of
// the calls in them. It returns the first turn that is not written.
func (w *writer) answer(i int) int {
	turns := w.req.Turns
	var calls []*llm.ToolCall
	for ; i < len(turns) && turns[i].Role == llm.Assistant; i++ {
		calls = append(calls, w.assistant(i)...)
	}
	if len(calls) == 0 {
		return i
	}
	end := i
	for end < len(turns) && turns[end].Role != llm.Assistant {
		end++
	}
	w.results(calls, i, end)
	return i
}

// assistant writes one turn and returns its calls.
func (w *writer) assistant(i int) (calls []*llm.ToolCall) {
	t := &w.req.Turns[i]
	path := at("turns", i)
	c := content{own: t.Ext.Protocol == own, Content: Content{Role: wire.Some(roleModel), Extra: extra(t.Ext, "")}}
	sealed := generation(w.target.Model) < 3 || slices.ContainsFunc(t.Blocks, sealedCall)
	for j, b := range t.Blocks {
		at := path + "." + at("blocks", j)
		call, ok := b.(*llm.ToolCall)
		if !ok {
			c.parts = append(c.parts, w.part(b, at)...)
			continue
		}
		p := w.call(call, at)
		if !sealed { // only the first of calls that are made at once has a signature (GEM-08)
			sealed = true
			p.ThoughtSignature = wire.Some(skipSignature)
			w.report.Approximate(at, "seal.skipped", "the call was made by another model; the documented stand-in for a signature is sent")
		}
		c.parts = append(c.parts, p)
		calls = append(calls, call)
	}
	w.add(c)
	return calls
}

func sealedCall(b llm.Block) bool {
	call, ok := b.(*llm.ToolCall)
	if !ok {
		return false
	}
	_, sealed := call.SealFor(own)
	return sealed
}

// results writes what the calls gave: one content, in the order of the calls,
// whatever order the results came in (CRQ-02).
func (w *writer) results(calls []*llm.ToolCall, from, to int) {
	c := content{results: true, Content: Content{Role: wire.Some(roleUser)}}
	var media []Part
	found := w.resultsIn(from, to)
	for _, call := range calls {
		of := found[call.CallID]
		if len(of) == 0 {
			if from < len(w.req.Turns) {
				w.report.Refuse("turns", "tool_call.unanswered", "the call "+strconv.Quote(call.CallID)+" of "+call.Name+" has no result")
			}
			continue
		}
		found[call.CallID] = of[1:]
		if w.answered == nil {
			w.answered = map[*llm.ToolResult]bool{}
		}
		w.answered[of[0].ToolResult] = true
		p, extraMedia := w.result(of[0].ToolResult, call, at("turns", of[0].turn))
		c.parts = append(c.parts, p)
		media = append(media, extraMedia...)
		if e := w.req.Turns[of[0].turn].Ext; e.Protocol == own {
			c.own, c.Extra = true, extra(e, "")
		}
	}
	if len(c.parts) > 0 {
		w.contents = append(w.contents, c)
	}
	if len(media) > 0 {
		w.contents = append(w.contents, content{Content: Content{Role: wire.Some(roleUser)}, parts: media})
	}
}

// answer is a result and the turn that it stands in.
type answer struct {
	*llm.ToolResult
	turn int
}

// resultsIn gathers the results between two turns by the id of their call.
func (w *writer) resultsIn(from, to int) map[string][]answer {
	found := map[string][]answer{}
	for i := from; i < to; i++ {
		for _, b := range w.req.Turns[i].Blocks {
			if res, ok := b.(*llm.ToolResult); ok {
				found[res.CallID] = append(found[res.CallID], answer{res, i})
			}
		}
	}
	return found
}
