package rig

import (
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func responsesAsked(rec *Received) Facts {
	o := testrig.Parse(rec.Body)
	f := Facts{Model: o.Str("model"), Stream: o.Flag("stream"), System: o.Str("instructions"), MaxTokens: o.Num("max_output_tokens")}
	f.Thinking = o.Obj("reasoning").Str("effort") != "" || o.Obj("reasoning").Str("summary") != ""
	f.responsesTools(o.List("tools"), "")
	f.Forced = forcedBy(o)
	f.Schema = properties(o.Obj("text").Obj("format").Obj("schema"))
	if s := o.Str("input"); s != "" {
		f.User = append(f.User, s)
	}
	var h history
	for i, item := range o.List("input") {
		f.checkResponsesItem(i, item)
		if item.Str("type") == "item_reference" {
			item = rec.told[item.Str("id")]
		}
		switch kind := item.Str("type"); {
		case kind == "additional_tools":
			f.responsesTools(item.List("tools"), "")
		case kind == "function_call", kind == "custom_tool_call":
			h.call(item.Str("call_id"), testrig.FlatName(item.Str("namespace"), item.Str("name")), item.Str("arguments")+item.Str("input"))
		case kind == "tool_search_call":
			h.call(item.Str("call_id"), "tool_search", testrig.Compact(item["arguments"]))
		case kind == "tool_search_output":
			f.responsesTools(item.List("tools"), "")
			h.result(&f, item.Str("call_id"), testrig.Compact(item["tools"]))
		case kind == "reasoning":
			f.Seal += item.Str("encrypted_content")
		case kind == "function_call_output", kind == "custom_tool_call_output":
			h.result(&f, item.Str("call_id"), item.Text("output"))
		case item.Str("role") == "system" || item.Str("role") == "developer":
			f.System += item.Text("content")
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
	switch rec.Path() {
	case "/responses/v1/responses":
	case "/responses/v1/responses/input_tokens":
		f.Counts = true
		f.checkResponsesCount(o)
	default:
		f.Wrong = append(f.Wrong, "asked at "+rec.Path())
	}
	return f
}

// responsesTools records the names of tools, prefixed with their namespace.
func (f *Facts) responsesTools(tools []testrig.Object, namespace string) {
	for _, t := range tools {
		name := testrig.FlatName(namespace, t.Str("name"))
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
