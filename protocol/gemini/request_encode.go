package gemini

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (e *requestEncoder) format(g *GenerationConfig) {
	f := &e.req.Output.Format
	codec.DropExt(e.report, "output.format", f.Ext, protocol.Gemini)
	mime := map[string]string{"json_object": mimeJSON, "json_schema": mimeJSON, "enum": mimeEnum}[f.Kind]
	if f.Ext.Protocol == own {
		e.ownFormat(g, mime)
		return
	}
	if mime != "" {
		g.ResponseMIMEType = wire.Some(mime)
	}
	if f.Kind == "" || f.Kind == "text" {
		return
	}
	if f.Schema != "" {
		g.ResponseJSONSchema = fitSchema(f.Schema, "output.format.schema", e.report)
	}
	e.formatLosses(f)
}

// formatLosses reports the settings of a format besides its schema.
func (e *requestEncoder) formatLosses(f *llm.Format) {
	if f.Schema == "" && f.Kind != "json_object" {
		e.report.Approximate("output.format.schema", "format.schema", "without a schema any JSON will do")
	}
	if f.Name != "" {
		e.report.Drop("output.format.name", "format.name", "a format has no name of its own")
	}
	if f.Description != "" {
		e.report.Drop("output.format.description", "format.description", "a format has no description of its own")
	}
	if f.Strict != nil && *f.Strict {
		e.report.Approximate("output.format.strict", "strict.best_effort", "the API follows a schema as well as it can")
	}
}

// ownFormat writes the format of a client that speaks this protocol.
func (e *requestEncoder) ownFormat(g *GenerationConfig, mime string) {
	f := &e.req.Output.Format
	members := kept(f.Ext, "")
	if f.Kind == "text" {
		mime = mimeText
	}
	if mime != "" {
		g.ResponseMIMEType = wire.Some(mime)
	}
	if raw, ok := members.Get("responseMimeType"); ok {
		g.Extra.Set("responseMimeType", raw)
	}
	if raw, ok := members.Get("responseSchema"); ok {
		g.ResponseSchema = raw
	} else if f.Schema != "" {
		g.ResponseJSONSchema = wire.Raw(f.Schema)
	}
}

// EncodeRequest encodes a generateContent request.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	w := requestEncoder{req: req, target: target, report: report}
	if w.target.Model == "" {
		w.target.Model = req.Model
	}
	body := w.body()
	out := protocol.Outgoing{Names: w.names}
	verb := Generate
	if req.Stream {
		verb = StreamGenerate
	}
	out.Path = Path(target.Version, w.target.Model, verb)
	if err := report.Err(); err != nil {
		return out, err
	}
	b, err := wire.Marshal(body)
	if err != nil { // a number or a name that JSON cannot hold
		return out, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Message: err.Error(), Cause: err}
	}
	out.Body = b
	return out, nil
}

// requestEncoder encodes a neutral request.
type requestEncoder struct {
	req      *llm.Request
	target   protocol.Target
	report   *llm.Report
	names    map[string]llm.ToolRef
	contents []content
	ids      map[string]int           // how often each call id was sent
	sent     map[*llm.ToolCall]string // the id that a call was sent with, "" for none
	answered map[*llm.ToolResult]bool // results that were written behind their calls
	cached   bool                     // something is marked for caching
	tooled   bool                     // the request has tools
}

// content is a content that is being built.
type content struct {
	role    string
	parts   wire.List[Part]
	extra   wire.Extra
	own     bool // it came from a client of this protocol and stays unchanged
	results bool // it holds function responses
}

func (e *requestEncoder) body() *Request {
	body := &Request{Extra: extra(e.req.Ext, "")}
	e.foreign()
	first := e.system(body)
	e.turns(first)
	var contents wire.List[Content]
	for i := range e.contents {
		c := &e.contents[i]
		contents.Append(&Content{Role: wire.Some(c.role), Parts: listOf(c.parts), Extra: c.extra})
	}
	if contents.Len() == 0 {
		e.report.Refuse("turns", "turns.empty", "the conversation is empty; send a user message")
	}
	body.Contents = listOf(contents)
	if tools := e.tools(); tools.Len() > 0 {
		body.Tools, e.tooled = listOf(tools), true
	}
	body.ToolConfig = e.toolChoice()
	body.GenerationConfig = e.generation()
	body.CachedContent = wire.Raw(e.req.State.CachedPrompt)
	e.service(body)
	e.rest()
	return body
}

// system encodes the leading system turns, and returns the index of the first
// other turn.
func (e *requestEncoder) system(body *Request) int {
	var c Content
	var parts wire.List[Part]
	i := 0
	for ; i < len(e.req.Turns); i++ {
		t := &e.req.Turns[i]
		if t.Role != llm.System && t.Role != llm.Developer {
			break
		}
		c.Extra = extra(t.Ext, "")
		for j, b := range t.Blocks {
			if p := e.part(b, codec.At("turns", i)+"."+codec.At("blocks", j)); p != nil {
				parts.Append(p)
			}
		}
	}
	if parts.Len() > 0 {
		c.Parts = listOf(parts)
		body.SystemInstruction = wire.Some(c)
	}
	return i
}

func (e *requestEncoder) service(body *Request) {
	s := &e.req.Service
	switch s.Tier {
	case "", "auto":
	case "default", "standard":
		body.ServiceTier = wire.Some("standard")
	case "flex", "priority":
		body.ServiceTier = wire.Some(s.Tier)
	default:
		if e.req.Ext.Protocol == own {
			body.ServiceTier = wire.Some(s.Tier)
		} else {
			e.report.Drop("service.tier", "tier.unsupported", "there is no such tier")
		}
	}
	if s.Speed == "fast" {
		e.report.Approximate("service.speed", "speed.as_tier", "the priority tier is the nearest")
		body.ServiceTier = wire.Some("priority")
	}
	store := e.req.State.Store
	switch {
	case store == nil:
	case e.req.Ext.Protocol == own:
		body.Store = wire.Some(*store)
	case *store:
		e.report.Drop("state.store", "store.unsupported", "responses are not stored")
	}
}

// rest reports the settings that this protocol does not have.
func (e *requestEncoder) rest() {
	r := e.req
	drop := func(lost bool, path, code, note string) {
		if lost {
			e.report.Drop(path, code, note)
		}
	}
	refuse := func(lost bool, path, code, note string) {
		if lost {
			e.report.Refuse(path, code, note)
		}
	}
	drop(e.cached, "cache", "cache.mark", "the API caches by itself and takes no marks")
	drop(r.Cache.Auto != nil, "cache.auto", "cache.automatic", "the API caches by itself")
	drop(r.Cache.Key != "", "cache.key", "cache.key_unsupported", "there is no cache key")
	drop(r.Cache.Retention != "", "cache.retention", "cache.retention_unsupported", "there is no such setting")
	drop(r.Identity.User != "", "identity.user", "user.dropped", "there is no place for the user's id")
	drop(r.Identity.SafetyID != "", "identity.safety_id", "user.dropped", "there is no place for the user's id")
	drop(len(r.Identity.Metadata) > 0, "identity.metadata", "metadata.unsupported", "there is no place for metadata")
	drop(r.State.Truncation == "auto", "state.truncation", "truncation.unsupported", "nothing is cut off by itself")
	refuse(r.State.PreviousID != "", "state.previous_id", "state.previous_response", "send the complete conversation; the upstream stores none")
	refuse(r.State.Conversation != "", "state.conversation", "state.conversation", "send the complete conversation; the upstream stores none")
	refuse(r.State.Background != nil && *r.State.Background, "state.background", "state.background", "there is no background mode")
	codec.DropExt(e.report, "ext", r.Ext, protocol.Gemini)
}

const (
	mimeText = "text/plain"
	mimeJSON = "application/json"
	mimeEnum = "text/x.enum"
)

func (e *requestEncoder) generation() wire.Opt[GenerationConfig] {
	g := GenerationConfig{Extra: extra(e.req.Ext, atGeneration)}
	e.sampling(&g)
	e.output(&g)
	e.format(&g)
	g.ThinkingConfig = e.thinking()
	if body, _ := wire.Marshal(&g); string(body) == "{}" {
		return wire.Opt[GenerationConfig]{}
	}
	return wire.Some(g)
}

func (e *requestEncoder) sampling(g *GenerationConfig) {
	s := e.req.Sampling
	if e.target.Gates.NoSampling {
		for _, v := range []struct {
			name string
			n    *llm.Number
		}{{"temperature", &s.Temperature}, {"top_p", &s.TopP}, {"top_k", &s.TopK}} {
			if *v.n != "" {
				*v.n = ""
				e.report.Drop("sampling."+v.name, v.name+".unsupported_by_model", "the model refuses it")
			}
		}
	}
	g.Temperature, g.TopP, g.TopK = wire.NonZero(wire.Number(s.Temperature)), wire.NonZero(wire.Number(s.TopP)), wire.NonZero(wire.Number(s.TopK))
	g.FrequencyPenalty, g.PresencePenalty = wire.NonZero(wire.Number(s.FrequencyPenalty)), wire.NonZero(wire.Number(s.PresencePenalty))
	g.Seed = wire.NonZero(wire.Number(s.Seed))
	if n, err := wire.Number(s.Seed).Int64(); s.Seed != "" && (err != nil || n != int64(int32(n))) {
		e.report.Approximate("sampling.seed", "seed.folded", "a seed has 32 bits here")
		g.Seed = wire.Some(wire.Int(n & 0x7fffffff))
	}
	if s.LogitBias != "" {
		e.report.Drop("sampling.logit_bias", "logit_bias.unsupported", "token numbers are each vendor's own")
	}
}

// maxStops and maxCandidates are limits of the API.
const (
	maxStops      = 5
	maxCandidates = 8
)

func (e *requestEncoder) output(g *GenerationConfig) {
	o := &e.req.Output
	if o.MaxTokens != nil {
		g.MaxOutputTokens = wire.Some(wire.Int(*o.MaxTokens))
		if *o.MaxTokens <= 0 && e.req.Ext.Protocol != own {
			e.report.Refuse("output.max_tokens", "max_tokens.zero", "the output limit must be at least one token")
		}
	}
	if o.Choices != nil && (*o.Choices > 1 || e.req.Ext.Protocol == own) {
		g.CandidateCount = wire.Some(wire.Int(*o.Choices))
		if *o.Choices > maxCandidates {
			e.report.Refuse("output.choices", "choices.too_many", "at most "+strconv.Itoa(maxCandidates)+" choices can be requested")
		}
	}
	e.stops(g)
	if o.Logprobs != nil {
		g.ResponseLogprobs = wire.Some(*o.Logprobs)
	}
	if o.TopLogprobs != nil {
		g.Logprobs = wire.Some(wire.Int(*o.TopLogprobs))
		if o.Logprobs == nil && e.req.Ext.Protocol != own {
			g.ResponseLogprobs = wire.Some(true) // the API rejects logprobs without it
		}
	}
	if len(o.Modalities) > 0 {
		upper := make([]string, 0, len(o.Modalities))
		for _, m := range o.Modalities {
			upper = append(upper, strings.ToUpper(m))
		}
		if e.req.Ext.Protocol == own || len(upper) > 1 || upper[0] != "TEXT" { // text alone is the default
			g.ResponseModalities = wire.Some(upper)
		}
	}
	if o.Verbosity != "" {
		e.report.Drop("output.verbosity", "verbosity.unsupported", "there is no such setting")
	}
}

func (e *requestEncoder) stops(g *GenerationConfig) {
	var stops []string
	for _, s := range e.req.Output.Stops {
		if s != "" {
			stops = append(stops, s)
		}
	}
	switch {
	case len(stops) == 0:
	case e.target.Gates.NoStop:
		e.report.Drop("output.stops", "stop.unsupported_by_model", "the model refuses stop sequences")
	case len(stops) > maxStops:
		e.report.Refuse("output.stops", "stop.too_many", "at most "+strconv.Itoa(maxStops)+" stop sequences can be given")
	default:
		g.StopSequences = wire.Some(stops)
	}
}
