package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
)

func anthropicDialect() *dialect {
	return &dialect{
		name: "anthropic", prefix: "/anthropic", target: "claude-sonnet-5", seal: "c2lnbmF0dXJl", counted: fmt.Sprintf(`{"input_tokens":%d}`, tokensCounted), key: "X-Api-Key", keyValue: upstreamKey,
		whole: anthropicWhole, stream: anthropicStream, problem: anthropicProblem, models: anthropicModels, asked: anthropicAsked,
	}
}

func anthropicUsage(out int) report {
	return report{
		"input_tokens": tokensIn - tokensCached, "cache_read_input_tokens": tokensCached, "cache_creation_input_tokens": 0,
		"output_tokens": out, "output_tokens_details": report{"thinking_tokens": tokensThought}, "service_tier": "standard",
	}
}

func anthropicMessage(content []any, stop any, out int) report {
	return report{
		"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-5-0001", "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": anthropicUsage(out),
	}
}

func anthropicStop(r reply) string {
	if len(r.calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func anthropicWhole(r reply) string {
	content := []any{}
	if len(r.thought) > 0 {
		content = append(content, report{"type": "thinking", "thinking": r.thoughts(), "signature": "c2lnbmF0dXJl"})
	}
	if len(r.text) > 0 {
		content = append(content, report{"type": "text", "text": r.said(), "citations": nil})
	}
	for _, c := range r.calls {
		content = append(content, report{"type": "tool_use", "id": c.id, "name": c.name, "input": json.RawMessage(c.json())})
	}
	return compact(anthropicMessage(content, anthropicStop(r), tokensOut))
}

func anthropicStream(r reply) []string {
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
	if len(r.thought) > 0 {
		deltas := deltasOf("thinking_delta", "thinking", r.thought)
		block(report{"type": "thinking", "thinking": "", "signature": ""}, append(deltas, report{"type": "signature_delta", "signature": "c2lnbmF0dXJl"}))
	}
	if len(r.text) > 0 {
		block(report{"type": "text", "text": "", "citations": nil}, deltasOf("text_delta", "text", r.text))
	}
	for _, c := range r.calls {
		block(report{"type": "tool_use", "id": c.id, "name": c.name, "input": report{}}, deltasOf("input_json_delta", "partial_json", c.args))
	}
	return append(out,
		sseNamed(report{"type": "message_delta", "delta": report{"stop_reason": anthropicStop(r), "stop_sequence": nil}, "usage": anthropicUsage(tokensOut)}),
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
	return compact(report{"type": "error", "error": report{"type": kinds[status], "message": message}, "request_id": "req_upstream"})
}

func anthropicModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z"})
	}
	return compact(report{"data": data, "has_more": false, "first_id": ids[0], "last_id": ids[len(ids)-1]})
}

func anthropicAsked(rec *received) facts {
	o := parse(rec.body)
	f := facts{Model: o.str("model"), Stream: o.flag("stream"), MaxTokens: o.num("max_tokens"), System: strings.Join(o.texts("system"), "")}
	kind := o.obj("thinking").str("type")
	f.Thinking = kind == "enabled" || kind == "adaptive"
	for _, t := range o.list("tools") {
		f.Tools = append(f.Tools, t.str("name"))
	}
	f.Schema = properties(o.obj("output_config").obj("format").obj("schema"))
	if f.Schema == nil {
		f.Schema = properties(o.obj("output_format").obj("schema")) // the beta form of older SDKs
	}
	var h history
	for _, m := range o.list("messages") {
		if m.str("role") == "user" {
			f.User = append(f.User, m.texts("content")...)
		}
		for _, b := range m.list("content") {
			switch b.str("type") {
			case "image":
				f.Images = append(f.Images, b.obj("source").str("media_type")+" "+b.obj("source").str("data"))
			case "thinking":
				f.Seal += b.str("signature")
			case "tool_use":
				h.call(b.str("id"), b.str("name"), compact(b["input"]))
			case "tool_result":
				h.result(&f, b.str("tool_use_id"), strings.Join(b.texts("content"), ""))
			}
		}
	}
	f.Results = h.pairs(&f)
	if want := "/anthropic/v1/messages"; rec.path() != want {
		f.Wrong = append(f.Wrong, "asked at "+rec.path())
	}
	if !f.Stream && f.MaxTokens == 0 {
		f.Wrong = append(f.Wrong, "max_tokens: Field required")
	}
	if o.has("thread") {
		f.Wrong = append(f.Wrong, "a thread, which this server does not keep")
	}
	if rec.header.Get("Anthropic-Version") == "" {
		f.Wrong = append(f.Wrong, "anthropic-version: header is required")
	}
	return f
}
