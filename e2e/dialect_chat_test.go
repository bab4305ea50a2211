package e2e

import (
	"strings"
)

func chatDialect() *dialect {
	return &dialect{
		name: "openai-chat", prefix: "/chat/v1", sdkPath: "/v1", target: "gpt-5.4", key: "Authorization", keyValue: "Bearer " + upstreamKey,
		whole: chatWhole, stream: chatStream, problem: openaiProblem, models: openaiModels, asked: chatAsked,
	}
}

func chatUsage() any {
	return report{
		"prompt_tokens": tokensIn, "completion_tokens": tokensOut, "total_tokens": tokensIn + tokensOut,
		"prompt_tokens_details":     report{"cached_tokens": tokensCached, "audio_tokens": 0},
		"completion_tokens_details": report{"reasoning_tokens": tokensThought, "audio_tokens": 0},
	}
}

func chatFinish(r reply) string {
	if len(r.calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func chatWhole(r reply) string {
	message := report{"role": "assistant", "content": nil, "refusal": nil}
	if len(r.text) > 0 {
		message["content"] = r.said()
	}
	if len(r.thought) > 0 {
		message["reasoning_content"] = r.thoughts()
	}
	var calls []any
	for _, c := range r.calls {
		calls = append(calls, report{"id": c.id, "type": "function", "function": report{"name": c.name, "arguments": c.json()}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return compact(report{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1763000000, "model": "gpt-5.4-0001", "usage": chatUsage(),
		"choices": []any{report{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatFinish(r)}},
	})
}

func chatChunk(delta report, finish any) string {
	return sseData(report{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763000000, "model": "gpt-5.4-0001",
		"choices": []any{report{"index": 0, "delta": delta, "finish_reason": finish}},
	})
}

func chatStream(r reply) []string {
	out := []string{chatChunk(report{"role": "assistant", "content": ""}, nil)}
	for _, s := range r.thought {
		out = append(out, chatChunk(report{"reasoning_content": s}, nil))
	}
	for _, s := range r.text {
		out = append(out, chatChunk(report{"content": s}, nil))
	}
	for i, c := range r.calls {
		first := report{"index": i, "id": c.id, "type": "function", "function": report{"name": c.name, "arguments": ""}}
		out = append(out, chatChunk(report{"tool_calls": []any{first}}, nil))
		for _, a := range c.args {
			out = append(out, chatChunk(report{"tool_calls": []any{report{"index": i, "function": report{"arguments": a}}}}, nil))
		}
	}
	usage := sseData(report{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763000000, "model": "gpt-5.4-0001", "choices": []any{}, "usage": chatUsage(),
	})
	return append(out, chatChunk(report{}, chatFinish(r)), usage, done)
}

func openaiProblem(status int, message string) string {
	kinds := map[int][2]string{404: {"invalid_request_error", "model_not_found"}, 429: {"requests", "rate_limit_exceeded"}}
	return problem(message, kinds[status][0], "null", quote(kinds[status][1]))
}

func openaiModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "object": "model", "created": 1763000000, "owned_by": "e2e"})
	}
	return compact(report{"object": "list", "data": data})
}

func chatAsked(rec *received) facts {
	o := parse(rec.body)
	f := facts{Model: o.str("model"), Stream: o.flag("stream"), Thinking: o.str("reasoning_effort") != ""}
	f.MaxTokens = max(o.num("max_completion_tokens"), o.num("max_tokens"))
	for _, t := range o.list("tools") {
		f.Tools = append(f.Tools, t.obj("function").str("name"))
	}
	f.Schema = properties(o.obj("response_format").obj("json_schema").obj("schema"))
	var h history
	for _, m := range o.list("messages") {
		switch m.str("role") {
		case "system", "developer":
			f.System += strings.Join(m.texts("content"), "")
		case "user":
			f.User = append(f.User, m.texts("content")...)
			for _, p := range m.list("content") {
				if url := p.obj("image_url").str("url"); url != "" {
					f.Images = append(f.Images, dataURL(url))
				}
			}
		case "assistant":
			for _, c := range m.list("tool_calls") {
				h.call(c.str("id"), c.obj("function").str("name"), c.obj("function").str("arguments"))
			}
		case "tool":
			h.result(&f, m.str("tool_call_id"), strings.Join(m.texts("content"), ""))
		}
	}
	f.Results = h.pairs(&f)
	if want := "/chat/v1/chat/completions"; rec.path() != want {
		f.Wrong = append(f.Wrong, "asked at "+rec.path())
	}
	return f
}

// dataURL is a data URL's media type and base64.
func dataURL(url string) string {
	kind, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	return kind + " " + data
}
