package gemini

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// foreign reports what the conversation holds beside its words and has no place in
// the protocol, wherever its turns and blocks go.
func (w *writer) foreign() {
	for i, t := range w.req.Turns {
		path := at("turns", i)
		if t.Role == llm.Developer {
			w.report.Approximate(path+".role", "turn.developer", "the API has one role for system text")
		}
		if t.Name != "" {
			w.report.Drop(path+".name", "turn.name", "participants have no names here")
		}
		protocol.DropExt(w.report, path, t.Ext, protocol.Gemini)
		w.foreignBlocks(path, t.Blocks)
	}
}

func (w *writer) foreignBlocks(path string, blocks []llm.Block) {
	for j, b := range blocks {
		path := path + "." + at("blocks", j)
		switch b := b.(type) {
		case *llm.Thought, *llm.ServerCall, *llm.Opaque:
			continue // they go as a whole or not at all
		case *llm.Text:
			reportPhase(b, path, w.report)
		case *llm.ToolResult:
			w.foreignBlocks(path, b.Blocks)
		}
		protocol.DropExt(w.report, path, b.Common().Ext, protocol.Gemini)
	}
}

func reportPhase(t *llm.Text, path string, report *llm.Report) {
	if t.Phase != "" {
		report.Drop(path+".phase", "text.phase", "the API does not tell commentary from answers")
	}
}

// reportEnvelope says what at the top of an answer the client does not get.
func reportEnvelope(resp *llm.Response, report *llm.Report) {
	if resp.Usage != nil && resp.Usage.CacheWrite > 0 {
		report.Drop("usage.cache_write", "usage.cache_write", "tokens written to a cache are counted as read anew")
	}
	switch resp.Tier {
	case "", "default", "standard": // what is served unasked
	default:
		report.Drop("tier", "tier.unsupported", "an answer does not say by which tier it was served")
	}
	protocol.DropExt(report, "response", resp.Ext, protocol.Gemini)
	for i := range resp.Choices {
		c := &resp.Choices[i]
		protocol.DropExt(report, at("choices", c.Index), c.Ext, protocol.Gemini)
	}
}

// reportBlock says what of a block that is written the client does not get.
func reportBlock(b llm.Block, path string, report *llm.Report) {
	protocol.DropExt(report, path, b.Common().Ext, protocol.Gemini)
	switch b := b.(type) {
	case *llm.Text:
		reportPhase(b, path, report)
		reportLogprobs(b.Logprobs, path, report)
		for _, c := range b.Citations {
			if c.FileID != "" && c.URL == "" {
				report.Drop(path+".citations", "citation.no_url", "a source has an address or words here, and no file")
			}
		}
	case *llm.Refusal:
		report.Approximate(path, "refusal.as_text", "a refusal is text here")
		reportLogprobs(b.Logprobs, path, report)
	case *llm.ToolCall:
		if _, wrapped := objectArgs(b.Args); wrapped && b.Kind != llm.CustomTool {
			report.Approximate(path+".args", "args.wrapped", "the arguments are no JSON object and are given inside one")
		}
	case *llm.Media:
		if b.Name+b.Title+b.Context != "" && b.Ext.Protocol != own {
			report.Drop(path+".name", "media.name", "a file has no name, title or context here")
		}
	}
}

func reportLogprobs(list llm.Raw, path string, report *llm.Report) {
	if list != "" {
		report.Approximate(path+".logprobs", "logprobs.form", "log probabilities have another form here, without the tokens' bytes")
	}
}

// reportFormless says that a block has no form here.
func reportFormless(b llm.Block, path string, report *llm.Report) {
	switch b := b.(type) {
	case *llm.ServerCall:
		report.Drop(path, "server_tool.dropped", "what another vendor's tool did has no form here")
	case *llm.Opaque:
		report.Drop(path, "block.unknown", "a block of the type "+b.Type+" has no form here")
	default:
		report.Drop(path, "media.unsupported", "an answer has no place for it")
	}
}

// lossyStops are the kinds that share another kind's word.
var lossyStops = map[llm.StopKind]bool{
	llm.StopSequence: true, llm.ContextWindow: true, llm.Refused: true, llm.PromptBlocked: true, llm.Pause: true,
}

// reportStop says what of a stop the client does not get.
func reportStop(c *llm.Choice, report *llm.Report) {
	s, path := c.Stop, at("choices", c.Index)+".stop"
	mine := finishKinds[s.Raw] == s.Kind
	if !mine && (lossyStops[s.Kind] || s.Kind == llm.Other && s.Raw != "") {
		report.Approximate(path+".kind", "stop_reason.lossy", string(s.Kind)+" is written as "+finishReason(s))
	}
	if s.Category != "" {
		report.Drop(path+".category", "stop_reason.lossy", "a refusal has no category here")
	}
}

// reportBlocked says what the client does not get of why a prompt was refused.
func reportBlocked(c *llm.Choice, reason string, report *llm.Report) {
	s, path := c.Stop, at("choices", c.Index)+".stop"
	if s.Category != "" && s.Category != reason {
		report.Drop(path+".category", "stop_reason.lossy", "a refused prompt has one of Google's reasons")
	}
	if s.Explanation != "" {
		report.Drop(path+".explanation", "stop_reason.lossy", "a refused prompt is not explained")
	}
}
