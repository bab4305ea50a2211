package openairesponses

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// requestWriter writes one request.
type requestWriter struct {
	req    *llm.Request
	target protocol.Target
	report *llm.Report

	items list
	first int // index of the first turn that is an item

	declared int // how many of the tools are written, or are to be in the request's list
	calls    []*sentCall
	names    map[string]llm.ToolRef
	marked   bool // a cache mark has been reported
	echo     bool // the request is repeated to the client that made it
}

// EncodeRequest writes a request for an upstream. A client whose own protocol
// keeps no state gets none here: nothing is stored, and reasoning comes sealed.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	req = withoutFound(req)
	w := &requestWriter{req: req, target: target, report: report}
	o := object{}
	o.str("model", orElse(target.Model, req.Model))
	w.input(&o)
	if tools := w.tools(); len(tools) > 0 { // an empty list is refused by many servers, CRQ-29
		o.raw("tools", tools.end())
	}
	w.toolChoice(&o)
	if req.Parallel != nil && (len(req.Tools) > 0 || isOwn(req.Ext)) {
		o.boolean("parallel_tool_calls", req.Parallel)
	}
	w.limits(&o)
	w.format(&o)
	w.sampling(&o)
	w.reasoning(&o)
	w.state(&o)
	w.identity(&o)
	if req.Stream {
		o.raw("stream", "true")
	}
	w.ext(&o)
	return protocol.Outgoing{Body: []byte(o.end()), Path: "/v1/responses", Names: w.names}, report.Err()
}

// ext writes the members that have no field, or reports those of another protocol.
func (w *requestWriter) ext(o *object) {
	if isOwn(w.req.Ext) {
		o.ext(w.req.Ext)
		return
	}
	if names := protocol.Lost(w.req.Ext, protocol.OpenAIResponses); len(names) > 0 {
		w.report.Drop("ext", "ext.unknown_field", strings.Join(names, ", "))
	}
}

// limits writes how much the answer may be.
func (w *requestWriter) limits(o *object) {
	out := &w.req.Output
	foreign := !isOwn(w.req.Ext)
	switch {
	case out.MaxTokens != nil && *out.MaxTokens == 0 && foreign:
		o.raw("prompt_cache_options", `{"prewarm":true}`) // what no output is called here
	default:
		o.integer("max_output_tokens", out.MaxTokens)
	}
	if out.Choices != nil && *out.Choices > 1 {
		w.report.Refuse("output.choices", "n.unsupported", "the Responses API gives one answer; leave n out or send 1")
	}
	if len(out.Stops) > 0 {
		w.report.Drop("output.stops", "stop.unsupported", "the Responses API has no stop sequences")
	}
	for _, m := range out.Modalities {
		switch strings.ToLower(m) {
		case "text":
		case "audio":
			w.report.Refuse("output.modalities", "modality.audio", "the Responses API gives no audio")
		default:
			w.report.Drop("output.modalities", "modality."+strings.ToLower(m), "the Responses API has no such output")
		}
	}
	if foreign && out.Logprobs != nil && !*out.Logprobs {
		return
	}
	o.integer("top_logprobs", out.TopLogprobs)
}

func (w *requestWriter) format(o *object) {
	f := &w.req.Output.Format
	protocol.DropExt(w.report, "output.format", f.Ext, protocol.OpenAIResponses)
	text := object{}
	if f.Kind == "enum" {
		w.report.Drop("output.format", "format.enum", "an answer cannot be held to a list of words; use a schema")
	} else if f.Kind != "" {
		form := object{}
		form.str("type", f.Kind)
		if f.Kind == "json_schema" {
			form.str("name", llm.SafeName(orElse(f.Name, "response"), maxID, llm.WordByte))
		}
		form.opt("description", f.Description)
		form.raw("schema", f.Schema)
		form.boolean("strict", f.Strict)
		form.ext(f.Ext)
		text.raw("format", form.end())
	}
	text.opt("verbosity", w.req.Output.Verbosity)
	if isOwn(w.req.Ext) {
		for _, m := range membersOf(w.req.Ext.Get("text")) {
			text.raw(m.Name, llm.Raw(m.Value))
		}
	}
	if len(text.names) > 0 {
		o.raw("text", text.end())
	}
}

func (w *requestWriter) sampling(o *object) {
	s := &w.req.Sampling
	for _, v := range []struct {
		name string
		from llm.Number
		has  bool // the protocol has it
	}{
		{"temperature", s.Temperature, true},
		{"top_p", s.TopP, true},
		{"presence_penalty", s.PresencePenalty, isOwn(w.req.Ext)},
		{"frequency_penalty", s.FrequencyPenalty, isOwn(w.req.Ext)},
		{"top_k", s.TopK, false},
		{"seed", s.Seed, false},
		{"logit_bias", llm.Number(s.LogitBias), false},
	} {
		switch {
		case v.from == "":
		case !v.has:
			w.report.Drop("sampling."+v.name, v.name+".unsupported", "the Responses API has no "+v.name)
		case w.target.Gates.NoSampling:
			w.report.Drop("sampling."+v.name, v.name+".unsupported_by_model", "the model takes no "+v.name)
		default:
			o.raw(v.name, llm.Raw(v.from))
		}
	}
}

// state says what OpenAI keeps. Its own default is to store everything.
func (w *requestWriter) state(o *object) {
	s := &w.req.State
	o.opt("previous_response_id", s.PreviousID)
	o.raw("conversation", s.Conversation)
	o.boolean("background", s.Background)
	o.opt("truncation", s.Truncation)
	o.boolean("store", s.Store)
	if isOwn(w.req.Ext) {
		return
	}
	o.raw("store", "false")
	include := list{}
	if s.Store == nil || !*s.Store {
		include.add(`"reasoning.encrypted_content"`)
	}
	if l := w.req.Output.Logprobs; l != nil && *l {
		include.add(`"message.output_text.logprobs"`)
	}
	if len(include) > 0 {
		o.raw("include", include.end())
	}
}

// tiers are the classes of service by their neutral names, and by those that
// others use for them.
var tiers = map[string]string{
	"auto": "auto", "default": "default", "standard": "default", "flex": "flex", "priority": "priority",
	"scale": "scale", "ultrafast": "ultrafast", "fast": "fast",
}

func (w *requestWriter) identity(o *object) {
	req := w.req
	o.opt("user", req.Identity.User)
	o.opt("safety_identifier", req.Identity.SafetyID)
	if len(req.Identity.Metadata) > 0 {
		meta := object{}
		for _, m := range req.Identity.Metadata {
			meta.raw(m.Name, m.Value)
		}
		o.raw("metadata", meta.end())
	}
	o.opt("prompt_cache_key", req.Cache.Key)
	o.opt("prompt_cache_retention", req.Cache.Retention)
	if req.Cache.Auto != nil {
		w.report.Drop("cache.auto", "cache.automatic", "OpenAI caches prompts by itself")
	}
	switch tier, known := tiers[req.Service.Tier]; {
	case req.Service.Tier == "" && req.Service.Speed == "fast":
		w.report.Approximate("service.speed", "speed.as_tier", "a faster service is asked for as a tier")
		o.str("service_tier", "priority")
	case req.Service.Tier == "":
	case isOwn(req.Ext):
		o.str("service_tier", req.Service.Tier)
	case known:
		o.str("service_tier", tier)
	default:
		w.report.Drop("service.tier", "tier.unsupported", "OpenAI has no tier "+req.Service.Tier)
	}
}

type level struct {
	name   string
	budget int64
}

// efforts are the levels of effort in order, and the least budget of tokens that
// stands for each.
var efforts = []level{{"none", 0}, {"minimal", 1}, {"low", 1024}, {"medium", 4096}, {"high", 12288}, {"xhigh", 24576}, {"max", 49152}}

func (w *requestWriter) reasoning(o *object) {
	r := &w.req.Reasoning
	protocol.DropExt(w.report, "reasoning", r.Ext, protocol.OpenAIResponses)
	out := object{}
	out.opt("effort", w.effort())
	switch {
	case isOwn(w.req.Ext), r.Show == "auto", r.Show == "concise", r.Show == "detailed":
		out.opt("summary", r.Show)
	case r.Show == "full":
		w.report.Approximate("reasoning.show", "reasoning.summary", "OpenAI shows a summary of the reasoning, not all of it")
		out.str("summary", "detailed")
	}
	out.ext(r.Ext)
	if len(out.names) > 0 || isOwn(r.Ext) {
		o.raw("reasoning", out.end())
	}
}

func (w *requestWriter) effort() string {
	r := &w.req.Reasoning
	effort := r.Effort
	switch {
	case effort != "":
	case r.Mode == "off":
		effort = "none"
	case r.Budget != nil && *r.Budget >= 0:
		effort = effortOf(*r.Budget)
		w.report.Approximate("reasoning.budget", "effort.from_budget", "a budget is sent as the effort "+effort)
	case r.Mode != "" || r.Budget != nil:
		w.report.Approximate("reasoning.mode", "reasoning.default", "how much to think is left to the model")
	}
	if nearest := nearestEffort(effort, w.target.Gates.Efforts); nearest != effort {
		w.report.Approximate("reasoning.effort", "effort.nearest", "the model knows no effort "+effort+"; "+nearest+" is sent")
		effort = nearest
	}
	return effort
}

func effortOf(budget int64) string {
	name := efforts[0].name
	for _, e := range efforts {
		if budget >= e.budget {
			name = e.name
		}
	}
	return name
}

// nearestEffort is the level that a model knows, rather less than more.
func nearestEffort(effort string, known []string) string {
	at := slices.IndexFunc(efforts, func(l level) bool { return l.name == effort })
	if at < 0 || len(known) == 0 || slices.Contains(known, effort) {
		return effort
	}
	for d := 1; d < len(efforts); d++ {
		for _, i := range []int{at - d, at + d} {
			if i >= 0 && i < len(efforts) && slices.Contains(known, efforts[i].name) {
				return efforts[i].name
			}
		}
	}
	return effort
}
