package openairesponses

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// outcome is how a response stands.
type outcome struct {
	status string
	reason string // of an incomplete one
	err    *llm.Error
}

// outcome tells it from why the model stopped. There is no word for a stop
// sequence that was hit, nor for a pause.
func (s *streamEncoder) outcome() outcome {
	switch s.stop.Kind {
	case llm.MaxTokens, llm.ContextWindow, llm.Pause:
		return outcome{status: "incomplete", reason: "max_output_tokens"}
	case llm.ContentFilter, llm.PromptBlocked:
		return outcome{status: "incomplete", reason: "content_filter"}
	case llm.Refused:
		if !s.refused() {
			return outcome{status: "incomplete", reason: "content_filter"}
		}
	case llm.Malformed:
		return outcome{status: "failed", err: &llm.Error{Kind: llm.Upstream, Code: "server_error",
			Message: "the model has called a tool in a form that cannot be read (" + s.stop.Raw + ")"}}
	case llm.Other:
		if s.stop.Raw != "" { // an end that is not clean must not look so, GEM-14
			return outcome{status: "failed", err: &llm.Error{Kind: llm.Upstream, Code: "server_error",
				Message: "the model stopped for a reason that has no word here (" + s.stop.Raw + ")"}}
		}
	default:
	}
	return outcome{status: "completed"}
}

// refused reports whether the answer says in words that it is none.
func (s *streamEncoder) refused() bool {
	for _, it := range s.items {
		for _, p := range it.parts {
			if p.typ == "refusal" {
				return true
			}
		}
	}
	return false
}

// unknownTier is what OpenAI itself says while it does not know the tier. The
// member is required.
const unknownTier = "auto"

// snapshot writes the response as it stands.
func (s *streamEncoder) snapshot(o outcome, to []byte) []byte {
	to = appendString(append(to, `{"id":`...), s.id)
	to = strconv.AppendInt(append(to, `,"object":"response","created_at":`...), s.created, 10)
	to = appendString(append(to, `,"status":`...), o.status)
	to = append(to, `,"error":`...)
	if o.err == nil {
		to = append(to, "null"...)
	} else {
		typ, code := wireError(o.err)
		to = appendString(append(to, `{"code":`...), orElse(code, typ))
		to = append(appendString(append(to, `,"message":`...), o.err.Message), '}')
	}
	to = append(to, `,"incomplete_details":`...)
	if o.reason == "" {
		to = append(to, "null"...)
	} else {
		to = append(appendString(append(to, `{"reason":`...), o.reason), '}')
	}
	to = appendString(append(to, `,"model":`...), s.model)
	to = append(to, `,"output":[`...)
	if o.status != "in_progress" {
		for i, it := range s.items {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(to, it.done...)
		}
	}
	to = append(to, `],"usage":`...)
	to = appendUsage(to, s.usage, o.status)
	to = appendString(append(to, `,"service_tier":`...), orElse(s.tier, unknownTier))
	return append(append(to, s.echo...), '}')
}

// appendUsage writes the counts with all their details (RSP-37), or null while
// they are not known.
func appendUsage(to []byte, u *llm.Usage, status string) []byte {
	if u == nil || status == "in_progress" {
		return append(to, "null"...)
	}
	to = strconv.AppendInt(append(to, `{"input_tokens":`...), u.TotalInput(), 10)
	to = strconv.AppendInt(append(to, `,"input_tokens_details":{"cached_tokens":`...), u.CacheRead, 10)
	to = strconv.AppendInt(append(to, `,"cache_write_tokens":`...), u.CacheWrite, 10)
	to = strconv.AppendInt(append(to, `},"output_tokens":`...), u.TotalOutput(), 10)
	to = strconv.AppendInt(append(to, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	to = strconv.AppendInt(append(to, `},"total_tokens":`...), u.TotalInput()+u.TotalOutput(), 10)
	return append(to, '}')
}

// echo writes the members of a snapshot that repeat the request, as members that
// follow others.
func echo(ask *llm.Request) []byte {
	o := object{}
	if ask != nil {
		echoRequest(&o, ask)
	}
	return withDefaults(&o)
}

// echoOf writes the members that an upstream has answered with.
func echoOf(members []llm.Member) []byte {
	o := object{}
	o.ext(llm.Ext{Protocol: own, Members: members})
	return withDefaults(&o)
}

func echoRequest(o *object, ask *llm.Request) {
	ask = withoutFound(ask)
	w := &requestWriter{req: ask, report: &llm.Report{}, echo: true} // the client's own words: nothing can be lost
	if len(ask.Turns) > 0 {
		if s, ok := w.instructions(ask.Turns[:1]); ok {
			o.str("instructions", s)
		}
	}
	o.integer("max_output_tokens", ask.Output.MaxTokens)
	o.integer("top_logprobs", ask.Output.TopLogprobs)
	o.boolean("parallel_tool_calls", ask.Parallel)
	o.opt("previous_response_id", ask.State.PreviousID)
	o.boolean("background", ask.State.Background)
	o.opt("truncation", ask.State.Truncation)
	o.raw("temperature", llm.Raw(ask.Sampling.Temperature))
	o.raw("top_p", llm.Raw(ask.Sampling.TopP))
	o.raw("presence_penalty", llm.Raw(ask.Sampling.PresencePenalty))
	o.raw("frequency_penalty", llm.Raw(ask.Sampling.FrequencyPenalty))
	o.opt("user", ask.Identity.User)
	o.opt("safety_identifier", ask.Identity.SafetyID)
	o.opt("prompt_cache_key", ask.Cache.Key)
	o.opt("prompt_cache_retention", ask.Cache.Retention)
	if len(ask.Identity.Metadata) > 0 {
		meta := object{}
		for _, m := range ask.Identity.Metadata {
			meta.raw(m.Name, m.Value)
		}
		o.raw("metadata", meta.end())
	}
	think := object{}
	think.nullable("effort", ask.Reasoning.Effort)
	think.nullable("summary", ask.Reasoning.Show)
	o.raw("reasoning", think.end())
	o.raw("text", echoText(&ask.Output))
	w.toolChoice(o)
	o.raw("tools", w.tools().end())
	if isOwn(ask.Ext) {
		o.raw("max_tool_calls", ask.Ext.Get("max_tool_calls"))
	}
}

func echoText(out *llm.Output) llm.Raw {
	form := object{}
	form.str("type", orElse(out.Format.Kind, "text"))
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

// defaults are the values of the members that a response must have, where the
// request does not say them. Nothing is stored as OpenAI stores it (RSP-19).
var defaults = []llm.Member{
	{Name: "completed_at", Value: "null"}, {Name: "instructions", Value: "null"}, {Name: "max_output_tokens", Value: "null"},
	{Name: "max_tool_calls", Value: "null"}, {Name: "parallel_tool_calls", Value: "true"}, {Name: "previous_response_id", Value: "null"},
	{Name: "reasoning", Value: `{"effort":null,"summary":null}`}, {Name: "store", Value: "false"}, {Name: "background", Value: "false"},
	{Name: "temperature", Value: "1.0"}, {Name: "top_p", Value: "1.0"}, {Name: "presence_penalty", Value: "0"},
	{Name: "frequency_penalty", Value: "0"}, {Name: "top_logprobs", Value: "0"}, {Name: "text", Value: `{"format":{"type":"text"}}`},
	{Name: "tool_choice", Value: `"auto"`}, {Name: "tools", Value: "[]"}, {Name: "truncation", Value: `"disabled"`},
	{Name: "user", Value: "null"}, {Name: "safety_identifier", Value: "null"}, {Name: "prompt_cache_key", Value: "null"},
	{Name: "metadata", Value: "{}"},
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
	text[0] = ',' // they follow the members that change
	return text[:len(text)-1]
}

// oneLine is an object without line breaks, which an event cannot have: clients write
// their tools as they like.
func oneLine(object llm.Raw) []byte {
	v := jsontext.Value(object)
	if bytes.ContainsAny(v, "\r\n") {
		_ = v.Compact() // what is no JSON stays as it is
	}
	return v
}
