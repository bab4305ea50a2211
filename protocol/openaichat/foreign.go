package openaichat

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// foreign reports what turns hold beside their words that no message has a member
// for. Blocks that are left out as a whole are reported where that is done.
func (e *requestEncoder) foreign() {
	for i := range e.in.Turns {
		t := &e.in.Turns[i]
		protocol.DropExt(e.report, "turns["+strconv.Itoa(i)+"]", t.Ext, protocol.OpenAIChat)
		for j, b := range t.Blocks {
			if _, ok := b.(*llm.ToolResult); t.Role == llm.ToolRole && !ok {
				e.report.Refuse(blockPath(i, j), "block.misplaced", "a turn of tools holds results and nothing else")
				continue
			}
			e.foreignBlock(t, b, blockPath(i, j))
		}
	}
}

func (e *requestEncoder) foreignBlock(t *llm.Turn, b llm.Block, path string) {
	switch b := b.(type) {
	case *llm.Thought, *llm.ServerCall, *llm.Opaque:
		return
	case *llm.Text:
		e.foreignText(t, b, path)
	case *llm.ToolResult:
		for _, inner := range b.Blocks {
			e.foreignBlock(t, inner, path)
		}
	}
	protocol.DropExt(e.report, path, b.Common().Ext, protocol.OpenAIChat)
	if _, carries := b.(*llm.ToolCall); !carries && t.Ext.Get(spelled(protocol.CarrierMember)) == "" {
		e.sealed(b.Common().Seals, path)
	}
}

func (e *requestEncoder) foreignText(t *llm.Turn, b *llm.Text, path string) {
	if b.Phase != "" {
		e.report.Drop(path+".phase", "text.phase", "chat completions do not tell comments from answers")
	}
	for _, c := range b.Citations {
		if t.Role != llm.Assistant || c.Protocol != own { // the assistant's own are with the message
			e.report.Drop(path+".citations", "citation.history", "an earlier answer is sent without its citations")
			break
		}
	}
}

// sealed reports seals that are not sent.
func (e *requestEncoder) sealed(seals []llm.Seal, path string) {
	if len(seals) > 0 {
		e.report.Drop(path, "seal.foreign", "a signature that only its maker can read is left out")
	}
}

// reportStop says where a reason has no word of its own here.
func reportStop(s llm.Stop, refused bool, report *llm.Report) {
	switch s.Kind {
	case llm.Refused:
		if refused {
			break
		}
		fallthrough
	case llm.StopSequence, llm.ContextWindow, llm.Pause, llm.Other, llm.Malformed, llm.PromptBlocked:
		report.Approximate("choices.stop", "stop_reason.lossy", "the reason "+string(s.Kind)+" has no word of its own here")
	}
	if s.Category != "" {
		report.Drop("choices.stop.category", "stop_reason.lossy", "the kind of a refusal is not said here")
	}
	if s.Explanation != "" {
		report.Drop("choices.stop.explanation", "stop_reason.lossy", "why an answer was refused is not said here")
	}
}
