package openairesponses

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// foreign reports what turns hold beside their words that no item has a member
// for. Blocks that are left out as a whole are reported where that is done.
func (w *requestWriter) foreign(turns []llm.Turn) {
	for i := range turns {
		path := "turns[" + strconv.Itoa(i) + "]"
		protocol.DropExt(w.report, path, turns[i].Ext, protocol.OpenAIResponses)
		for j, b := range turns[i].Blocks {
			w.foreignBlock(turns[i].Role, b, path+".blocks["+strconv.Itoa(j)+"]")
		}
	}
}

func (w *requestWriter) foreignBlock(role llm.Role, b llm.Block, path string) {
	switch b := b.(type) {
	case *llm.Thought, *llm.ServerCall, *llm.Opaque:
		return
	case *llm.Text:
		for _, c := range b.Citations {
			if _, ok := encodeAnnotation(c, 0); role != llm.Assistant {
				w.report.Drop(path+".citations", "citation.history", "only an answer has citations in the Responses API")
			} else if !ok {
				w.report.Drop(path+".citations", "citation.no_url", "a citation without an address has no place in the Responses API")
			}
		}
	case *llm.ToolResult:
		for _, inner := range b.Blocks {
			w.foreignBlock(role, inner, path)
		}
	}
	protocol.DropExt(w.report, path, b.Common().Ext, protocol.OpenAIResponses)
	if len(b.Common().Seals) > 0 {
		w.report.Drop(path, "seal.foreign", "a signature that only its maker can read is left out")
	}
}

// reportLosses notes what of an answer has no place.
func reportLosses(resp *llm.Response, report *llm.Report) {
	protocol.DropExt(report, "response", resp.Ext, protocol.OpenAIResponses)
	if len(resp.Choices) > 1 {
		report.Drop("choices", "choices.dropped", "a response has one answer; the others are left out")
	}
	for i := range resp.Choices[:min(1, len(resp.Choices))] {
		c := &resp.Choices[i]
		protocol.DropExt(report, "choices", c.Ext, protocol.OpenAIResponses)
		refused := false
		for _, b := range c.Blocks {
			_, words := b.(*llm.Refusal)
			refused = refused || words
			reportBlock(b, report)
		}
		reportStop(c.Stop, refused, report)
	}
}

func reportBlock(b llm.Block, report *llm.Report) {
	const path = "choices.blocks"
	switch b := b.(type) {
	case *llm.Text:
		for _, cite := range b.Citations {
			if _, ok := encodeAnnotation(cite, 0); !ok {
				report.Drop(path+".citations", "citation.no_url", "a citation without an address has no place in a response")
			}
		}
	case *llm.Refusal:
		if b.Logprobs != "" {
			report.Drop(path+".logprobs", "logprobs.unsupported", "a refusal has no log probabilities in a response")
		}
	case *llm.Media:
		if newItem(b) == nil {
			report.Drop(path, "media.unsupported", "a response can hold images only, and only as data")
			return
		}
	case *llm.ServerCall:
		if b.Protocol != own {
			report.Drop(path, "server_tool.dropped", "the item "+b.Type+" of another vendor is left out")
			return
		}
	case *llm.Opaque:
		if b.Protocol != own {
			report.Drop(path, "block.unknown", "the block "+b.Type+" of another vendor is left out")
			return
		}
	}
	protocol.DropExt(report, path, b.Common().Ext, protocol.OpenAIResponses)
}

// reportStop says where a reason has no word of its own here.
func reportStop(s llm.Stop, refused bool, report *llm.Report) {
	switch s.Kind {
	case llm.EndTurn, llm.ToolUse, llm.MaxTokens, llm.ContentFilter:
	case llm.Refused:
		if !refused {
			report.Approximate("choices.stop", "stop_reason.lossy", "a refusal without words is told as a filter's")
		}
	default:
		report.Approximate("choices.stop", "stop_reason.lossy", "the reason "+string(s.Kind)+" has no word of its own here")
	}
	if s.Category != "" {
		report.Drop("choices.stop.category", "stop_reason.lossy", "the kind of a refusal is not said here")
	}
	if s.Explanation != "" {
		report.Drop("choices.stop.explanation", "stop_reason.lossy", "why an answer was refused is not said here")
	}
}
