package e2e

import (
	"fmt"
	"strings"
)

func responsesDialect() *dialect {
	return &dialect{
		name: "openai-responses", prefix: "/responses/v1", sdkPath: "/v1", target: "gpt-5.5", seal: "ZW5jcnlwdGVk", key: "Authorization", keyValue: "Bearer " + upstreamKey,
		whole: responsesWhole, stream: responsesStream, problem: openaiProblem, models: openaiModels, asked: responsesAsked,
	}
}

// responsesItems are the output items of a reply.
func responsesItems(r reply) []report {
	var items []report
	if len(r.thought) > 0 {
		items = append(items, report{"id": "rs_1", "type": "reasoning", "summary": []any{report{"type": "summary_text", "text": r.thoughts()}}, "encrypted_content": "ZW5jcnlwdGVk"})
	}
	if len(r.text) > 0 {
		items = append(items, report{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": []any{outputText(r.said())}})
	}
	for i, c := range r.calls {
		items = append(items, report{
			"id": fmt.Sprintf("fc_%d", i+1), "type": "function_call", "status": "completed", "call_id": c.id, "name": c.name, "arguments": c.json(),
		})
	}
	return items
}

func outputText(s string) report {
	return report{"type": "output_text", "text": s, "annotations": []any{}, "logprobs": []any{}}
}

func responsesObject(status string, items []report, usage any) report {
	if items == nil {
		items = []report{}
	}
	return report{
		"id": "resp_1", "object": "response", "created_at": 1763000000, "status": status, "model": "gpt-5.5-0001", "output": items, "usage": usage,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": report{}, "parallel_tool_calls": true, "temperature": 1,
		"tool_choice": "auto", "tools": []any{}, "top_p": 1, "text": report{"format": report{"type": "text"}},
	}
}

func responsesUsage() any {
	return report{
		"input_tokens": tokensIn, "input_tokens_details": report{"cached_tokens": tokensCached, "cache_write_tokens": 0},
		"output_tokens": tokensOut, "output_tokens_details": report{"reasoning_tokens": tokensThought}, "total_tokens": tokensIn + tokensOut,
	}
}

func responsesWhole(r reply) string {
	return compact(responsesObject("completed", responsesItems(r), responsesUsage()))
}

func responsesStream(r reply) []string {
	var out []string
	emit := func(kind string, members report) {
		members["type"], members["sequence_number"] = kind, len(out)
		out = append(out, sseNamed(members))
	}
	emit("response.created", report{"response": responsesObject("in_progress", nil, nil)})
	emit("response.in_progress", report{"response": responsesObject("in_progress", nil, nil)})
	items := responsesItems(r)
	for i, item := range items {
		at := report{"output_index": i}
		emit("response.output_item.added", merge(at, report{"item": emptied(item)}))
		in := merge(at, report{"item_id": item["id"]})
		switch item["type"] {
		case "reasoning":
			in := merge(in, report{"summary_index": 0})
			emit("response.reasoning_summary_part.added", merge(in, report{"part": report{"type": "summary_text", "text": ""}}))
			for _, s := range r.thought {
				emit("response.reasoning_summary_text.delta", merge(in, report{"delta": s}))
			}
			emit("response.reasoning_summary_text.done", merge(in, report{"text": r.thoughts()}))
			emit("response.reasoning_summary_part.done", merge(in, report{"part": report{"type": "summary_text", "text": r.thoughts()}}))
		case "message":
			in := merge(in, report{"content_index": 0})
			emit("response.content_part.added", merge(in, report{"part": outputText("")}))
			for _, s := range r.text {
				emit("response.output_text.delta", merge(in, report{"delta": s, "logprobs": []any{}}))
			}
			emit("response.output_text.done", merge(in, report{"text": r.said(), "logprobs": []any{}}))
			emit("response.content_part.done", merge(in, report{"part": outputText(r.said())}))
		case "function_call":
			c := r.calls[i-(len(items)-len(r.calls))]
			for _, a := range c.args {
				emit("response.function_call_arguments.delta", merge(in, report{"delta": a}))
			}
			emit("response.function_call_arguments.done", merge(in, report{"arguments": c.json(), "name": c.name}))
		}
		emit("response.output_item.done", merge(at, report{"item": item}))
	}
	emit("response.completed", report{"response": responsesObject("completed", items, responsesUsage())})
	return out
}

// emptied is an item as it is announced, before anything of it is there.
func emptied(item report) report {
	out := merge(item, report{})
	if out["type"] != "reasoning" {
		out["status"] = "in_progress"
	}
	for _, name := range []string{"content", "summary"} {
		if _, ok := out[name]; ok {
			out[name] = []any{}
		}
	}
	if _, ok := out["arguments"]; ok {
		out["arguments"] = ""
	}
	return out
}

func merge(a, b report) report {
	out := report{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}

func responsesAsked(rec *received) facts {
	o := parse(rec.body)
	f := facts{Model: o.str("model"), Stream: o.flag("stream"), System: o.str("instructions"), MaxTokens: o.num("max_output_tokens")}
	f.Thinking = o.obj("reasoning").str("effort") != "" || o.obj("reasoning").str("summary") != ""
	for _, t := range o.list("tools") {
		f.Tools = append(f.Tools, t.str("name"))
	}
	f.Schema = properties(o.obj("text").obj("format").obj("schema"))
	if s := o.str("input"); s != "" {
		f.User = append(f.User, s)
	}
	var h history
	for _, item := range o.list("input") {
		switch kind := item.str("type"); {
		case kind == "function_call":
			h.call(item.str("call_id"), item.str("name"), item.str("arguments"))
		case kind == "reasoning":
			f.Seal += item.str("encrypted_content")
		case kind == "function_call_output":
			h.result(&f, item.str("call_id"), strings.Join(item.texts("output"), ""))
		case item.str("role") == "system" || item.str("role") == "developer":
			f.System += strings.Join(item.texts("content"), "")
		case item.str("role") == "user":
			f.User = append(f.User, item.texts("content")...)
			for _, p := range item.list("content") {
				if url := p.str("image_url"); url != "" {
					f.Images = append(f.Images, dataURL(url))
				}
			}
		}
	}
	f.Results = h.pairs(&f)
	if want := "/responses/v1/responses"; rec.path() != want {
		f.Wrong = append(f.Wrong, "asked at "+rec.path())
	}
	return f
}
