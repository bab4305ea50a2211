package rig

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func openaiModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "object": "model", "created": 1763000000, "owned_by": "e2e"})
	}
	return testrig.Compact(report{"object": "list", "data": data})
}

func chatAsked(rec *Received) Facts {
	o := testrig.Parse(rec.Body)
	f := Facts{Model: o.Str("model"), Stream: o.Flag("stream"), Thinking: o.Str("reasoning_effort") != "", usage: o.Obj("stream_options").Flag("include_usage")}
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
			f.System += m.Text("content")
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
			h.result(&f, m.Str("tool_call_id"), m.Text("content"))
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

// dataURL returns a data URL's media type and base64.
func dataURL(url string) string {
	kind, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	return kind + " " + data
}

// forcedBy reports whether tool_choice requires a call, in both of OpenAI's dialects.
func forcedBy(o testrig.Object) bool {
	return o.Str("tool_choice") == "required" || o.Obj("tool_choice") != nil
}
