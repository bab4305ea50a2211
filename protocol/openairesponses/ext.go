package openairesponses

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// isOwn reports whether members are this protocol's.
func isOwn(e llm.Ext) bool { return e.Protocol == own }

// extOf keeps unknown members. Null means absent in a request.
func extOf(e wire.Extra) llm.Ext {
	ext := llm.Ext{Protocol: own}
	for _, m := range e.All() {
		if string(m.Value) != "null" {
			ext.Members = append(ext.Members, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
		}
	}
	return ext
}

// membersOf decodes an object that was kept as JSON.
func membersOf(raw llm.Raw) wire.Object {
	var o wire.Object
	if raw != "" {
		_ = json.Unmarshal([]byte(raw), &o, wire.Lenient) // a value that is not an object has no members
	}
	return o
}

// spelled returns the mark that keeps a member's original JSON although the
// neutral model has its meaning.
func spelled(name string) string { return codec.MarkPrefix + name }

// wireName returns a member's name on the wire, and false for a mark that is not
// written.
func wireName(name string) (string, bool) {
	switch name {
	case instructionsMark, inputMark, itemMark, partMark, namespaceMark, additionalMark, wholeMark, foundMark:
		return "", false
	}
	return strings.TrimPrefix(name, codec.MarkPrefix), true
}

func keepMember(e *llm.Ext, name, as string) {
	if as != "" {
		e.Members = append(e.Members, llm.Member{Name: spelled(name), Value: quote(as)})
	}
}

// keepNull keeps a member that is null where the vendor distinguishes this from a member that is absent.
func keepNull(e *llm.Ext, name string, null bool) {
	if null {
		e.Members = append(e.Members, llm.Member{Name: spelled(name), Value: "null"})
	}
}

// echo encodes the members of a snapshot that repeat the request. They follow
// other members.
func echo(req *llm.Request) []byte {
	o := object{}
	if req != nil {
		echoRequest(&o, req)
	}
	return withDefaults(&o)
}

// echoOf encodes the members with which the upstream repeated the request.
func echoOf(members []llm.Member) []byte {
	o := object{}
	o.ext(llm.Ext{Protocol: own, Members: members})
	return withDefaults(&o)
}

func echoRequest(o *object, req *llm.Request) {
	req = withoutFound(req)
	w := newRequestEncoder(req, &llm.Report{}) // the client's own request: nothing can be lost
	w.echo = true
	if len(req.Turns) > 0 {
		if s, ok := w.instructions(req.Turns[:1]); ok {
			o.str("instructions", s)
		}
	}
	o.integer("max_output_tokens", req.Output.MaxTokens)
	o.integer("top_logprobs", req.Output.TopLogprobs)
	o.boolean("parallel_tool_calls", req.Parallel)
	o.opt("previous_response_id", req.State.PreviousID)
	o.boolean("background", req.State.Background)
	o.opt("truncation", req.State.Truncation)
	o.raw("temperature", llm.Raw(req.Sampling.Temperature))
	o.raw("top_p", llm.Raw(req.Sampling.TopP))
	o.raw("presence_penalty", llm.Raw(req.Sampling.PresencePenalty))
	o.raw("frequency_penalty", llm.Raw(req.Sampling.FrequencyPenalty))
	o.opt("user", req.Identity.User)
	o.opt("safety_identifier", req.Identity.SafetyID)
	o.opt("prompt_cache_key", req.Cache.Key)
	o.opt("prompt_cache_retention", req.Cache.Retention)
	if len(req.Identity.Metadata) > 0 {
		meta := object{}
		for _, m := range req.Identity.Metadata {
			meta.raw(m.Name, m.Value)
		}
		o.raw("metadata", meta.end())
	}
	think := object{}
	think.nullable("effort", req.Reasoning.Effort)
	think.nullable("summary", req.Reasoning.Show)
	o.raw("reasoning", think.end())
	o.raw("text", echoText(&req.Output))
	w.toolChoice(o)
	o.raw("tools", w.tools().end())
	if isOwn(req.Ext) {
		o.raw("max_tool_calls", req.Ext.Get("max_tool_calls"))
	}
}

func echoText(out *llm.Output) llm.Raw {
	form := object{}
	form.str("type", cmp.Or(out.Format.Kind, "text"))
	if out.Format.Kind == "json_schema" {
		form.str("name", out.Format.Name)
		form.nullable("description", out.Format.Description)
		form.raw("schema", out.Format.Schema)
		form.boolean("strict", out.Format.Strict)
		form.raw("strict", "false")
	}
	o := object{}
	o.raw("format", form.end())
	o.opt("verbosity", out.Verbosity)
	return o.end()
}

// isEcho reports whether a member of a response repeats the request.
func isEcho(name string) bool {
	switch name {
	case "conversation", "prompt", "prompt_cache_retention", "prompt_cache_options", "include":
		return true
	}
	return slices.ContainsFunc(defaults, func(m llm.Member) bool { return m.Name == name })
}

func withDefaults(o *object) []byte {
	for _, m := range defaults {
		o.raw(m.Name, m.Value)
	}
	text := oneLine(o.end())
	text[0] = ',' // they follow other members
	return text[:len(text)-1]
}

// oneLine returns an object without line breaks, which an event cannot hold.
func oneLine(object llm.Raw) []byte {
	v := jsontext.Value(object)
	if bytes.ContainsAny(v, "\r\n") {
		_ = v.Compact() // invalid JSON stays unchanged
	}
	return v
}
