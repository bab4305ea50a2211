package rig

import (
	"fmt"
	"strings"
)

func responsesDialect() *Dialect {
	return &Dialect{
		Name: "openai-responses", Prefix: "/responses/v1", SDKPath: "/v1", Target: "gpt-5.5", Seal: "ZW5jcnlwdGVk", Key: "Authorization", KeyValue: "Bearer " + UpstreamKey,
		Whole: responsesWhole, Stream: responsesStream, Problem: openaiProblem, Models: openaiModels, Asked: responsesAsked,
	}
}

// responsesItems are the output items of a reply.
func responsesItems(r Reply) []report {
	var items []report
	if len(r.Thought) > 0 {
		items = append(items, report{"id": "rs_1", "type": "reasoning", "summary": []any{report{"type": "summary_text", "text": r.Thoughts()}}, "encrypted_content": "ZW5jcnlwdGVk"})
	}
	if len(r.Text) > 0 {
		items = append(items, report{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": []any{outputText(r.Said())}})
	}
	for i, c := range r.Calls {
		items = append(items, responsesCall(i, c))
	}
	return items
}

func responsesCall(i int, c Invocation) report {
	if c.Search {
		return report{
			"id": fmt.Sprintf("tsc_%d", i+1), "type": "tool_search_call", "execution": "client", "status": "completed", "call_id": c.ID,
			"arguments": Parse([]byte(c.JSON())),
		}
	}
	item := report{"status": "completed", "call_id": c.ID, "name": c.Name}
	if c.Namespace != "" {
		item["namespace"] = c.Namespace
	}
	if c.Custom {
		return merge(item, report{"id": fmt.Sprintf("ctc_%d", i+1), "type": "custom_tool_call", "input": c.JSON()})
	}
	return merge(item, report{"id": fmt.Sprintf("fc_%d", i+1), "type": "function_call", "arguments": c.JSON()})
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
		"input_tokens": TokensIn, "input_tokens_details": report{"cached_tokens": TokensCached, "cache_write_tokens": 0},
		"output_tokens": TokensOut, "output_tokens_details": report{"reasoning_tokens": TokensThought}, "total_tokens": TokensIn + TokensOut,
	}
}

func responsesWhole(r Reply) string {
	return Compact(responsesObject("completed", responsesItems(r), responsesUsage()))
}

func responsesStream(r Reply) []string {
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
			for _, s := range r.Thought {
				emit("response.reasoning_summary_text.delta", merge(in, report{"delta": s}))
			}
			emit("response.reasoning_summary_text.done", merge(in, report{"text": r.Thoughts()}))
			emit("response.reasoning_summary_part.done", merge(in, report{"part": report{"type": "summary_text", "text": r.Thoughts()}}))
		case "message":
			in := merge(in, report{"content_index": 0})
			emit("response.content_part.added", merge(in, report{"part": outputText("")}))
			for _, s := range r.Text {
				emit("response.output_text.delta", merge(in, report{"delta": s, "logprobs": []any{}}))
			}
			emit("response.output_text.done", merge(in, report{"text": r.Said(), "logprobs": []any{}}))
			emit("response.content_part.done", merge(in, report{"part": outputText(r.Said())}))
		case "function_call":
			c := r.Calls[i-(len(items)-len(r.Calls))]
			for _, a := range c.Args {
				emit("response.function_call_arguments.delta", merge(in, report{"delta": a}))
			}
			emit("response.function_call_arguments.done", merge(in, report{"arguments": c.JSON(), "name": c.Name}))
		case "custom_tool_call":
			c := r.Calls[i-(len(items)-len(r.Calls))]
			for _, a := range c.Args {
				emit("response.custom_tool_call_input.delta", merge(in, report{"delta": a}))
			}
			emit("response.custom_tool_call_input.done", merge(in, report{"input": c.JSON()}))
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
	for _, name := range []string{"arguments", "input"} {
		if _, ok := out[name].(string); ok {
			out[name] = ""
		}
	}
	if out["type"] == "tool_search_call" {
		out["arguments"] = report{}
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

func responsesAsked(rec *Received) Facts {
	o := Parse(rec.Body)
	f := Facts{Model: o.Str("model"), Stream: o.Flag("stream"), System: o.Str("instructions"), MaxTokens: o.Num("max_output_tokens")}
	f.Thinking = o.Obj("reasoning").Str("effort") != "" || o.Obj("reasoning").Str("summary") != ""
	f.responsesTools(o.List("tools"), "")
	f.Forced = forcedBy(o)
	f.Schema = properties(o.Obj("text").Obj("format").Obj("schema"))
	if s := o.Str("input"); s != "" {
		f.User = append(f.User, s)
	}
	var h history
	for _, item := range o.List("input") {
		if item.Str("type") == "item_reference" {
			item = rec.told[item.Str("id")]
		}
		switch kind := item.Str("type"); {
		case kind == "additional_tools":
			f.responsesTools(item.List("tools"), "")
		case kind == "function_call", kind == "custom_tool_call":
			h.call(item.Str("call_id"), flat(item.Str("namespace"), item.Str("name")), item.Str("arguments")+item.Str("input"))
		case kind == "tool_search_call":
			h.call(item.Str("call_id"), "tool_search", Compact(item["arguments"]))
		case kind == "tool_search_output":
			f.responsesTools(item.List("tools"), "")
			h.result(&f, item.Str("call_id"), Compact(item["tools"]))
		case kind == "reasoning":
			f.Seal += item.Str("encrypted_content")
		case kind == "function_call_output", kind == "custom_tool_call_output":
			h.result(&f, item.Str("call_id"), strings.Join(item.Texts("output"), ""))
		case item.Str("role") == "system" || item.Str("role") == "developer":
			f.System += strings.Join(item.Texts("content"), "")
		case item.Str("role") == "assistant":
			f.Said = append(f.Said, item.Texts("content")...)
		case item.Str("role") == "user":
			f.User = append(f.User, item.Texts("content")...)
			for _, p := range item.List("content") {
				if url := p.Str("image_url"); url != "" {
					f.Images = append(f.Images, dataURL(url))
				}
			}
		}
	}
	f.Results = h.pairs(&f)
	if want := "/responses/v1/responses"; rec.Path() != want {
		f.Wrong = append(f.Wrong, "asked at "+rec.Path())
	}
	return f
}

// responsesTools notes the names of tools, those in a namespace behind its name.
func (f *Facts) responsesTools(tools []Object, namespace string) {
	for _, t := range tools {
		name := flat(namespace, t.Str("name"))
		switch t.Str("type") {
		case "namespace":
			f.responsesTools(t.List("tools"), name)
			continue
		case "custom":
			f.Custom = append(f.Custom, name)
		case "tool_search":
			name = "tool_search"
		}
		f.Tools = append(f.Tools, name)
	}
}
