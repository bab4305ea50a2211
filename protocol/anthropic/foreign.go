package anthropic

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// foreign reports what the conversation holds beside its words and has no place in
// the protocol, wherever its turns and blocks go.
func (e *requestEncoder) foreign() {
	for i, t := range e.req.Turns {
		at := path("turns", i)
		if t.Role == llm.Developer {
			e.report.Approximate(at+".role", "turn.developer", "the protocol has one role for system text")
		}
		e.dropIf(t.Name != "", at+".name", "turn.name")
		protocol.DropExt(e.report, at, t.Ext, protocol.Anthropic)
		e.foreignBlocks(at, t.Blocks)
	}
}

func (e *requestEncoder) foreignBlocks(at string, blocks []llm.Block) {
	for k, b := range blocks {
		at := path(at+".blocks", k)
		switch b := b.(type) {
		case *llm.Thought, *llm.ServerCall, *llm.Opaque:
			continue // they go as a whole or not at all
		case *llm.Text:
			e.dropIf(b.Phase != "", at+".phase", "text.phase")
		case *llm.ToolResult:
			e.foreignBlocks(at, b.Blocks)
		}
		protocol.DropExt(e.report, at, b.Common().Ext, protocol.Anthropic)
	}
}
