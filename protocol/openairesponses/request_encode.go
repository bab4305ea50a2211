package openairesponses

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
)

// requestEncoder encodes one request.
type requestEncoder struct {
	req    *llm.Request
	target protocol.Target
	report *llm.Report

	items list
	first int // index of the first turn that is an item

	declared int // number of tools that are written or belong to the request's list
	calls    []*sentCall
	open     map[string][]*sentCall // calls without a result, by their id
	ids      codec.UniqueIDs        // of the calls
	names    map[string]llm.ToolRef
	marked   bool // a cache mark was reported
	echo     bool // the request is repeated in its response
}

func newRequestEncoder(req *llm.Request, report *llm.Report) *requestEncoder {
	return &requestEncoder{req: req, report: report, open: map[string][]*sentCall{}, ids: codec.UniqueIDs{}}
}

// EncodeRequest encodes a responses request. For a client whose protocol keeps no
// state, nothing is stored and reasoning is sealed.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	req = withoutFound(req)
	w := newRequestEncoder(req, report)
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
func (e *requestEncoder) ext(o *object) {
	if isOwn(e.req.Ext) {
		o.ext(e.req.Ext)
		return
	}
	codec.DropExt(e.report, "ext", e.req.Ext, protocol.OpenAIResponses)
}

// leastOutput is the smallest output limit that the Responses API takes.
const leastOutput = 16

// limits encodes the output limit.
func (e *requestEncoder) limits(o *object) {
	out := &e.req.Output
	foreign := !isOwn(e.req.Ext)
	switch {
	case out.MaxTokens != nil && *out.MaxTokens == 0 && foreign:
		o.raw("prompt_cache_options", `{"prewarm":true}`) // how this protocol says that no output is wanted
	case out.MaxTokens != nil && *out.MaxTokens > 0 && *out.MaxTokens < leastOutput && foreign:
		o.integer("max_output_tokens", new(int64(leastOutput)))
		e.report.Approximate("output.max_tokens", "max_tokens.raised", "the API takes limits of at least "+strconv.Itoa(leastOutput)+" tokens")
	default:
		o.integer("max_output_tokens", out.MaxTokens)
	}
	if out.Choices != nil && *out.Choices > 1 {
		e.report.Refuse("output.choices", "n.unsupported", "the Responses API returns one choice; omit n or send 1")
	}
	if len(out.Stops) > 0 {
		e.report.Drop("output.stops", "stop.unsupported", "the Responses API has no stop sequences")
	}
	for _, m := range out.Modalities {
		switch strings.ToLower(m) {
		case "text":
		case "audio":
			e.report.Refuse("output.modalities", "modality.audio", "the Responses API gives no audio")
		default:
			e.report.Drop("output.modalities", "modality."+strings.ToLower(m), "the Responses API has no such output")
		}
	}
	if foreign && out.Logprobs != nil && !*out.Logprobs {
		return
	}
	o.integer("top_logprobs", out.TopLogprobs)
}

func (e *requestEncoder) sampling(o *object) {
	s := &e.req.Sampling
	for _, v := range []struct {
		name string
		from llm.Number
		has  bool // the protocol has this setting
	}{
		{"temperature", s.Temperature, true},
		{"top_p", s.TopP, true},
		{"presence_penalty", s.PresencePenalty, isOwn(e.req.Ext)},
		{"frequency_penalty", s.FrequencyPenalty, isOwn(e.req.Ext)},
		{"top_k", s.TopK, false},
		{"seed", s.Seed, false},
		{"logit_bias", llm.Number(s.LogitBias), false},
	} {
		switch {
		case v.from == "":
		case !v.has:
			e.report.Drop("sampling."+v.name, v.name+".unsupported", "the Responses API has no "+v.name)
		case e.target.Gates.NoSampling:
			e.report.Drop("sampling."+v.name, v.name+".unsupported_by_model", "the model takes no "+v.name)
		default:
			o.raw(v.name, llm.Raw(v.from))
		}
	}
}

// state encodes what OpenAI stores. Its default is to store everything.
func (e *requestEncoder) state(o *object) {
	s := &e.req.State
	o.opt("previous_response_id", s.PreviousID)
	o.raw("conversation", s.Conversation)
	o.boolean("background", s.Background)
	if s.CachedPrompt != "" {
		e.report.Refuse("state.cached_prompt", "state.cached_prompt", "the prompt is cached by another vendor; send its content")
	}
	o.opt("truncation", s.Truncation)
	o.boolean("store", s.Store)
	if isOwn(e.req.Ext) {
		return
	}
	o.raw("store", "false")
	include := list{}
	if s.Store == nil || !*s.Store {
		include.add(`"reasoning.encrypted_content"`)
	}
	if l := e.req.Output.Logprobs; l != nil && *l {
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

func (e *requestEncoder) identity(o *object) {
	req := e.req
	o.opt("user", openai.ShortID(req.Identity.User, "identity.user", e.report))
	o.opt("safety_identifier", openai.ShortID(req.Identity.SafetyID, "identity.safety_id", e.report))
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
		e.report.Drop("cache.auto", "cache.automatic", "OpenAI caches prompts by itself")
	}
	switch tier, known := tiers[req.Service.Tier]; {
	case req.Service.Tier == "" && req.Service.Speed == "fast":
		e.report.Approximate("service.speed", "speed.as_tier", "the service class is sent as service_tier")
		o.str("service_tier", "priority")
	case req.Service.Tier == "":
	case isOwn(req.Ext):
		o.str("service_tier", req.Service.Tier)
	case known:
		o.str("service_tier", tier)
	default:
		e.report.Drop("service.tier", "tier.unsupported", "OpenAI has no tier "+req.Service.Tier)
	}
}
