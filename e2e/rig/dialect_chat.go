package rig

import (
	"strings"
)

// Done is how a stream of Chat ends.
const Done = "data: [DONE]\n\n"

func chatDialect() *Dialect {
	return &Dialect{
		Name: "openai-chat", Prefix: "/chat/v1", SDKPath: "/v1", Target: "gpt-5.4", Key: "Authorization", KeyValue: "Bearer " + UpstreamKey,
		Whole: chatWhole, Stream: chatStream, Problem: openaiProblem, Models: openaiModels, Asked: chatAsked,
	}
}

func chatUsage() any {
	return report{
		"prompt_tokens": TokensIn, "completion_tokens": TokensOut, "total_tokens": TokensIn + TokensOut,
		"prompt_tokens_details":     report{"cached_tokens": TokensCached, "audio_tokens": 0},
		"completion_tokens_details": report{"reasoning_tokens": TokensThought, "audio_tokens": 0},
	}
}

// ChatFinish is why a reply ends.
func ChatFinish(r Reply) string {
	if len(r.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func chatWhole(r Reply) string {
	message := report{"role": "assistant", "content": nil, "refusal": nil}
	if len(r.Text) > 0 {
		message["content"] = r.Said()
	}
	if len(r.Thought) > 0 {
		message["reasoning_content"] = r.Thoughts()
	}
	var calls []any
	for _, c := range r.Calls {
		kind, args := chatCall(c)
		calls = append(calls, report{"id": c.ID, "type": kind, kind: report{"name": c.Flat(), args: c.JSON()}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return Compact(report{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1763000000, "model": "gpt-5.4-0001", "usage": chatUsage(),
		"choices": []any{report{"index": 0, "message": message, "logprobs": nil, "finish_reason": ChatFinish(r)}},
	})
}

func chatChunk(delta report, finish any) string {
	return sseData(report{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763000000, "model": "gpt-5.4-0001",
		"choices": []any{report{"index": 0, "delta": delta, "finish_reason": finish}},
	})
}

func chatStream(r Reply) []string {
	out := []string{chatChunk(report{"role": "assistant", "content": ""}, nil)}
	for _, s := range r.Thought {
		out = append(out, chatChunk(report{"reasoning_content": s}, nil))
	}
	for _, s := range r.Text {
		out = append(out, chatChunk(report{"content": s}, nil))
	}
	for i, c := range r.Calls {
		kind, args := chatCall(c)
		first := report{"index": i, "id": c.ID, "type": kind, kind: report{"name": c.Flat(), args: ""}}
		out = append(out, chatChunk(report{"tool_calls": []any{first}}, nil))
		for _, a := range c.Args {
			out = append(out, chatChunk(report{"tool_calls": []any{report{"index": i, kind: report{args: a}}}}, nil))
		}
	}
	usage := sseData(report{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763000000, "model": "gpt-5.4-0001", "choices": []any{}, "usage": chatUsage(),
	})
	return append(out, chatChunk(report{}, ChatFinish(r)), usage, Done)
}

// chatCall is what a call is, and what its arguments are named.
func chatCall(c Invocation) (kind, args string) {
	if c.Custom {
		return "custom", "input"
	}
	return "function", "arguments"
}

func openaiProblem(status int, message string) string {
	kinds := map[int][2]string{404: {"invalid_request_error", "model_not_found"}, 429: {"requests", "rate_limit_exceeded"}}
	return Compact(report{"error": report{"message": message, "type": kinds[status][0], "param": nil, "code": kinds[status][1]}})
}

func openaiModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "object": "model", "created": 1763000000, "owned_by": "e2e"})
	}
	return Compact(report{"object": "list", "data": data})
}

func chatAsked(rec *Received) Facts {
	o := Parse(rec.Body)
	f := Facts{Model: o.Str("model"), Stream: o.Flag("stream"), Thinking: o.Str("reasoning_effort") != ""}
	f.MaxTokens = max(o.Num("max_completion_tokens"), o.Num("max_tokens"))
	for _, t := range o.List("tools") {
		f.Tools = append(f.Tools, t.Obj("function").Str("name")+t.Obj("custom").Str("name"))
		if t.Str("type") == "custom" {
			f.Custom = append(f.Custom, t.Obj("custom").Str("name"))
		}
	}
	f.Forced = forcedBy(o)
	f.Schema = properties(o.Obj("response_format").Obj("json_schema").Obj("schema"))
	var h history
	for _, m := range o.List("messages") {
		switch m.Str("role") {
		case "system", "developer":
			f.System += strings.Join(m.Texts("content"), "")
		case "user":
			f.User = append(f.User, m.Texts("content")...)
			for _, p := range m.List("content") {
				if url := p.Obj("image_url").Str("url"); url != "" {
					f.Images = append(f.Images, dataURL(url))
				}
			}
		case "assistant":
			f.Said = append(f.Said, m.Texts("content")...)
			for _, c := range m.List("tool_calls") {
				of := c.Obj(c.Str("type"))
				h.call(c.Str("id"), of.Str("name"), of.Str("arguments")+of.Str("input"))
			}
		case "tool":
			h.result(&f, m.Str("tool_call_id"), strings.Join(m.Texts("content"), ""))
		}
	}
	f.Results = h.pairs(&f)
	f.checkNames(`^[a-zA-Z0-9_-]{1,64}$`)
	f.checkChatTurns(o.List("messages"))
	if want := "/chat/v1/chat/completions"; rec.Path() != want {
		f.Wrong = append(f.Wrong, "asked at "+rec.Path())
	}
	return f
}

// dataURL is a data URL's media type and base64.
func dataURL(url string) string {
	kind, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	return kind + " " + data
}

// forcedBy says whether tool_choice wants a call, as both of OpenAI's dialects have it.
func forcedBy(o Object) bool {
	return o.Str("tool_choice") == "required" || o.Obj("tool_choice") != nil
}
