package rig

import "github.com/isogloss-gateway/isogloss/internal/test/testrig"

func anthropicModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z"})
	}
	return testrig.Compact(report{"data": data, "has_more": false, "first_id": ids[0], "last_id": ids[len(ids)-1]})
}

func anthropicAsked(rec *Received) Facts {
	o := testrig.Parse(rec.Body)
	f := Facts{Model: o.Str("model"), Stream: o.Flag("stream"), MaxTokens: o.Num("max_tokens"), System: o.Text("system")}
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
				h.call(b.Str("id"), b.Str("name"), testrig.Compact(b["input"]))
			case "tool_result":
				h.result(&f, b.Str("tool_use_id"), b.Text("content"))
			}
		}
	}
	f.Results = h.pairs(&f)
	f.checkNames(`^[a-zA-Z0-9_-]{1,128}$`)
	f.checkAnthropicTools(o.List("tools"))
	f.checkAnthropicTurns(o.List("messages"))
	f.checkAnthropicBlocks(o.List("messages"))
	switch rec.Path() {
	case "/anthropic/v1/messages":
	case "/anthropic/v1/messages/count_tokens":
		f.Counts = true
		f.checkAnthropicCount(o)
	default:
		f.Wrong = append(f.Wrong, "asked at "+rec.Path())
	}
	if !f.Counts && !f.Stream && f.MaxTokens == 0 {
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
