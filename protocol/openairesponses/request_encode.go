package openairesponses

import (
	"cmp"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
)

// requestWriter encodes one request.
type requestWriter struct {
	req    *llm.Request
	target protocol.Target
	report *llm.Report

	items list
	first int // index of the first turn that is an item

	declared int // number of tools that are written or belong to the request's list
	calls    []*sentCall
	open     map[string][]*sentCall // calls without a result, by their id
	ids      protocol.UniqueIDs     // of the calls
	names    map[string]llm.ToolRef
	marked   bool // a cache mark was reported
	echo     bool // the request is repeated in its response
}

func newRequestWriter(req *llm.Request, report *llm.Report) *requestWriter {
	return &requestWriter{req: req, report: report, open: map[string][]*sentCall{}, ids: protocol.UniqueIDs{}}
}

// EncodeRequest encodes a responses request. For a client whose protocol keeps no
// state, nothing is stored and reasoning is sealed.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	req = withoutFound(req)
	w := newRequestWriter(req, report)
	w.target = target
	o := object{}
	o.str("model", cmp.Or(target.Model, req.Model))
	w.input(&o)
	if tools := w.tools(); len(tools) > 0 { // many servers reject an empty list, CRQ-29
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
	return protocol.Outgoing{Body: o.close(), Path: "/v1/responses", Names: w.names}, report.Err()
}

// ext writes the unknown members, or reports those of another protocol.
func (w *requestWriter) ext(o *object) {
	if isOwn(w.req.Ext) {
		o.ext(w.req.Ext)
		return
	}
	protocol.DropExt(w.report, "ext", w.req.Ext, protocol.OpenAIResponses)
}

// limits encodes the output limit.
func (w *requestWriter) limits(o *object) {
	out := &w.req.Output
	foreign := !isOwn(w.req.Ext)
	switch {
	case out.MaxTokens != nil && *out.MaxTokens == 0 && foreign:
		o.raw("prompt_cache_options", `{"prewarm":true}`) // how this protocol says that no output is wanted
	default:
		o.integer("max_output_tokens", out.MaxTokens)
	}
	if out.Choices != nil && *out.Choices > 1 {
		w.report.Refuse("output.choices", "n.unsupported", "the Responses API returns one choice; omit n or send 1")
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

func (w *requestWriter) sampling(o *object) {
	s := &w.req.Sampling
	for _, v := range []struct {
		name string
		from llm.Number
		has  bool // the protocol has this setting
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

// state encodes what OpenAI stores. Its default is to store everything.
func (w *requestWriter) state(o *object) {
	s := &w.req.State
	o.opt("previous_response_id", s.PreviousID)
	o.raw("conversation", s.Conversation)
	o.boolean("background", s.Background)
	if s.CachedPrompt != "" {
		w.report.Refuse("state.cached_prompt", "state.cached_prompt", "the prompt is cached by another vendor; send its content")
	}
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

// tiers maps service tiers, including the names that other protocols use, to
// those of this one.
var tiers = map[string]string{
	"auto": "auto", "default": "default", "standard": "default", "flex": "flex", "priority": "priority",
	"scale": "scale", "ultrafast": "ultrafast", "fast": "fast",
}

func (w *requestWriter) identity(o *object) {
	req := w.req
	o.opt("user", openai.ShortID(req.Identity.User, "identity.user", w.report))
	o.opt("safety_identifier", openai.ShortID(req.Identity.SafetyID, "identity.safety_id", w.report))
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
		w.report.Approximate("service.speed", "speed.as_tier", "the service class is sent as service_tier")
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
