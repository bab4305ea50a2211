package rig

import (
	"encoding/json"
	"fmt"
	"strings"
)

func anthropicDialect() *Dialect {
	return &Dialect{
		Name: "anthropic", Prefix: "/anthropic", Target: "claude-sonnet-5", Seal: "c2lnbmF0dXJl", Counted: fmt.Sprintf(`{"input_tokens":%d}`, TokensCounted), Key: "X-Api-Key", KeyValue: UpstreamKey,
		Whole: anthropicWhole, Stream: anthropicStream, Problem: anthropicProblem, Models: anthropicModels, Asked: anthropicAsked,
	}
}

func anthropicUsage(out int) report {
	return report{
		"input_tokens": TokensIn - TokensCached, "cache_read_input_tokens": TokensCached, "cache_creation_input_tokens": 0,
		"output_tokens": out, "output_tokens_details": report{"thinking_tokens": TokensThought}, "service_tier": "standard",
	}
}

func anthropicMessage(content []any, stop any, out int) report {
	return report{
		"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-5-0001", "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": anthropicUsage(out),
	}
}

// AnthropicStop is why a reply ends.
func AnthropicStop(r Reply) string {
	if len(r.Calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func anthropicWhole(r Reply) string {
	content := []any{}
	if len(r.Thought) > 0 {
		content = append(content, report{"type": "thinking", "thinking": r.Thoughts(), "signature": "c2lnbmF0dXJl"})
	}
	if len(r.Text) > 0 {
		content = append(content, report{"type": "text", "text": r.Said(), "citations": nil})
	}
	for _, c := range r.Calls {
		content = append(content, report{"type": "tool_use", "id": c.ID, "name": c.Flat(), "input": json.RawMessage(c.JSON())})
	}
	return Compact(anthropicMessage(content, AnthropicStop(r), TokensOut))
}

func anthropicStream(r Reply) []string {
	out := []string{sseNamed(report{"type": "message_start", "message": anthropicMessage([]any{}, nil, 1)}), sseNamed(report{"type": "ping"})}
	blocks := 0
	block := func(start report, deltas []report) {
		out = append(out, sseNamed(report{"type": "content_block_start", "index": blocks, "content_block": start}))
		for _, d := range deltas {
			out = append(out, sseNamed(report{"type": "content_block_delta", "index": blocks, "delta": d}))
		}
		out = append(out, sseNamed(report{"type": "content_block_stop", "index": blocks}))
		blocks++
	}
	if len(r.Thought) > 0 {
		deltas := deltasOf("thinking_delta", "thinking", r.Thought)
		block(report{"type": "thinking", "thinking": "", "signature": ""}, append(deltas, report{"type": "signature_delta", "signature": "c2lnbmF0dXJl"}))
	}
	if len(r.Text) > 0 {
		block(report{"type": "text", "text": "", "citations": nil}, deltasOf("text_delta", "text", r.Text))
	}
	for _, c := range r.Calls {
		block(report{"type": "tool_use", "id": c.ID, "name": c.Flat(), "input": report{}}, deltasOf("input_json_delta", "partial_json", c.Args))
	}
	return append(out,
		sseNamed(report{"type": "message_delta", "delta": report{"stop_reason": AnthropicStop(r), "stop_sequence": nil}, "usage": anthropicUsage(TokensOut)}),
		sseNamed(report{"type": "message_stop"}))
}

func deltasOf(kind, member string, pieces []string) []report {
	var out []report
	for _, p := range pieces {
		out = append(out, report{"type": kind, member: p})
	}
	return out
}

func anthropicProblem(status int, message string) string {
	kinds := map[int]string{404: "not_found_error", 429: "rate_limit_error"}
	return Compact(report{"type": "error", "error": report{"type": kinds[status], "message": message}, "request_id": "req_upstream"})
}

func anthropicModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z"})
	}
	return Compact(report{"data": data, "has_more": false, "first_id": ids[0], "last_id": ids[len(ids)-1]})
}

func anthropicAsked(rec *Received) Facts {
	o := Parse(rec.Body)
	f := Facts{Model: o.Str("model"), Stream: o.Flag("stream"), MaxTokens: o.Num("max_tokens"), System: strings.Join(o.Texts("system"), "")}
	kind := o.Obj("thinking").Str("type")
	f.Thinking = kind == "enabled" || kind == "adaptive"
	for _, t := range o.List("tools") {
		f.Tools = append(f.Tools, t.Str("name"))
	}
	choice := o.Obj("tool_choice").Str("type")
	f.Forced = choice == "any" || choice == "tool"
	f.Schema = properties(o.Obj("output_config").Obj("format").Obj("schema"))
	if f.Schema == nil {
		f.Schema = properties(o.Obj("output_format").Obj("schema")) // the beta form of older SDKs
	}
	var h history
	for _, m := range o.List("messages") {
		if m.Str("role") == "user" {
			f.User = append(f.User, m.Texts("content")...)
		} else {
			f.Said = append(f.Said, m.Texts("content")...)
		}
		for _, b := range m.List("content") {
			switch b.Str("type") {
			case "image":
				f.Images = append(f.Images, b.Obj("source").Str("media_type")+" "+b.Obj("source").Str("data"))
			case "thinking":
				f.Seal += b.Str("signature")
			case "tool_use":
				h.call(b.Str("id"), b.Str("name"), Compact(b["input"]))
			case "tool_result":
				h.result(&f, b.Str("tool_use_id"), strings.Join(b.Texts("content"), ""))
			}
		}
	}
	f.Results = h.pairs(&f)
	f.checkNames(`^[a-zA-Z0-9_-]{1,128}$`)
	f.checkAnthropicTools(o.List("tools"))
	f.checkAnthropicTurns(o.List("messages"))
	if want := "/anthropic/v1/messages"; rec.Path() != want {
		f.Wrong = append(f.Wrong, "asked at "+rec.Path())
	}
	if !f.Stream && f.MaxTokens == 0 {
		f.Wrong = append(f.Wrong, "max_tokens: Field required")
	}
	if o.Has("thread") {
		f.Wrong = append(f.Wrong, "a thread, which this server does not keep")
	}
	if rec.Header.Get("Anthropic-Version") == "" {
		f.Wrong = append(f.Wrong, "anthropic-version: header is required")
	}
	return f
}
