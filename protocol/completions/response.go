package completions

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// finishes maps stop reasons to finish reasons. A stop reason that is not listed is not a
// normal end and must not look like one.
var finishes = map[llm.StopKind]string{
	llm.EndTurn: "stop", llm.StopSequence: "stop", llm.ToolUse: "stop",
	llm.Refused: "content_filter", llm.ContentFilter: "content_filter", llm.PromptBlocked: "content_filter",
}

func finishOf(s llm.Stop) string {
	f, ok := finishes[s.Kind]
	switch {
	case ok:
		return f
	case s.Kind == llm.Other && s.Raw == "": // the upstream gave no reason
		return "stop"
	}
	return "length"
}

// EncodeResponse encodes a non-streaming response.
func (Codec) EncodeResponse(resp *llm.Response, _ *llm.Request, report *llm.Report) []byte {
	codec.DropExt(report, "response", resp.Ext, own)
	if resp.Tier != "" && resp.Tier != "default" {
		report.Drop("tier", "tier.unsupported", "a text completion does not say by which tier it was served")
	}
	b := appendHead(nil, resp.ID, resp.Created, resp.Model)
	for i, c := range resp.Choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendChoice(b, c.Index, textOf(&c, report), finishOf(c.Stop))
		codec.DropExt(report, "choices", c.Ext, own)
		reportStop(c.Stop, report)
	}
	b = append(b, ']')
	if resp.Usage != nil {
		b = appendUsage(b, resp.Usage)
	}
	return append(b, '}')
}

// textOf returns the text of a choice. It includes a refusal, which the finish reason
// distinguishes from other text.
func textOf(c *llm.Choice, report *llm.Report) string {
	var said strings.Builder
	for _, b := range c.Blocks {
		codec.DropExt(report, "choices.blocks", b.Common().Ext, own)
		switch b := b.(type) {
		case *llm.Text:
			said.WriteString(b.Text)
			if len(b.Citations) > 0 {
				report.Drop("choices.blocks.citations", "completion.text_only", "a text completion has no place for citations")
			}
			if b.Phase != "" {
				report.Drop("choices.blocks.phase", "text.phase", "text completions do not distinguish commentary from the final answer")
			}
		case *llm.Refusal:
			said.WriteString(b.Text)
			report.Approximate("choices.blocks", "refusal.as_text", "a text completion has no place of its own for a refusal")
		case *llm.Thought:
			report.Drop("choices.blocks", "completion.text_only", "a text completion has no place for reasoning")
		default:
			report.Drop("choices.blocks", "completion.text_only", "a text completion has no field for a part of the response")
		}
	}
	return said.String()
}

func reportStop(s llm.Stop, report *llm.Report) {
	switch s.Kind {
	case llm.EndTurn, llm.MaxTokens, llm.ContentFilter:
	default:
		report.Approximate("choices.stop", "stop_reason.lossy", "the reason "+string(s.Kind)+" has no word of its own here")
	}
	if s.Category != "" || s.Explanation != "" {
		report.Drop("choices.stop", "stop_reason.lossy", "the explanation of a refusal has no field")
	}
}

// appendHead appends a completion or a chunk up to its choices.
func appendHead(b []byte, id string, created int64, model string) []byte {
	b = wire.AppendQuote(append(b, `{"id":`...), id)
	b = strconv.AppendInt(append(b, `,"object":"text_completion","created":`...), created, 10)
	b = wire.AppendQuote(append(b, `,"model":`...), model)
	return append(b, `,"choices":[`...)
}

// appendChoice appends a choice. In a chunk that is not the last, finish is empty.
func appendChoice(b []byte, index int, text, finish string) []byte {
	b = wire.AppendQuote(append(b, `{"text":`...), text)
	b = strconv.AppendInt(append(b, `,"index":`...), int64(index), 10)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if finish == "" {
		return append(b, "null}"...)
	}
	return append(wire.AppendQuote(b, finish), '}')
}

func appendUsage(b []byte, u *llm.Usage) []byte {
	in, out := u.TotalInput(), u.TotalOutput()
	b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":`...), in, 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), out, 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), in+out, 10)
	b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), u.CacheRead, 10)
	b = strconv.AppendInt(append(b, `},"completion_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	return append(b, "}}"...)
}
