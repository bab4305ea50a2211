package openaichat

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

const own = string(protocol.OpenAIChat)

// maxStops is how many stop sequences the API takes.
const maxStops = 4

// DecodeRequest reads the body of POST /v1/chat/completions.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var r Request
	if err := requestShape.Unmarshal(in.Body, &r); err != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: "the request is not one of chat completions: " + err.Error(), Cause: err}
	}
	d := requestDecoder{wire: &r, out: &llm.Request{Model: r.Model.Value(), Stream: r.Stream.Value()}}
	d.out.IncludeUsage = r.StreamOptions.Value().IncludeUsage.Value()
	// The protocol is noted also where there are no members: it says whose file
	// ids and cache marks the request holds.
	d.out.Ext = llm.Ext{Protocol: own, Members: members(r.Extra.All())}
	d.turns()
	d.tools()
	d.output()
	d.identity()
	d.rest()
	return d.out, d.err
}

// requestDecoder carries a request from the wire to the neutral model.
type requestDecoder struct {
	wire *Request
	out  *llm.Request
	err  *llm.Error
	fifo map[string][]string // ids made for legacy function calls, by name, that wait for their result
}

func (d *requestDecoder) fail(param, message string) {
	if d.err == nil {
		d.err = &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: param, Message: message}
	}
}

func (d *requestDecoder) output() {
	r, o := d.wire, &d.out.Output
	o.MaxTokens = d.int("max_completion_tokens", r.MaxCompletionTokens)
	if o.MaxTokens == nil {
		o.MaxTokens = d.int("max_tokens", r.MaxTokens)
	}
	o.Choices = d.int("n", r.N)
	o.TopLogprobs = d.int("top_logprobs", r.TopLogprobs)
	o.Logprobs = ptr(r.Logprobs)
	o.Verbosity = string(r.Verbosity.Value())
	o.Stops = r.Stop.Value().Sequences()
	for _, m := range r.Modalities.Value() {
		o.Modalities = append(o.Modalities, string(m))
	}
	if f, ok := r.ResponseFormat.Get(); ok {
		o.Format = decodeFormat(f)
	}
	d.out.Sampling = llm.Sampling{
		Temperature: number(r.Temperature), TopP: number(r.TopP), Seed: number(r.Seed),
		FrequencyPenalty: number(r.FrequencyPenalty), PresencePenalty: number(r.PresencePenalty),
	}
	if b, ok := r.LogitBias.Get(); ok {
		d.out.Sampling.LogitBias = rawOf(b)
	}
	d.out.Reasoning.Effort = string(r.ReasoningEffort.Value())
}

func decodeFormat(f ResponseFormat) llm.Format {
	s := f.JSONSchema.Value()
	return llm.Format{
		Kind: string(f.Type.Value()), Name: s.Name.Value(), Description: s.Description.Value().String(),
		Schema: llm.Raw(s.Schema), Strict: ptr(s.Strict), Ext: extWith(f.Extra, "json_schema", s.Extra),
	}
}

func (d *requestDecoder) identity() {
	r := d.wire
	d.out.Identity = llm.Identity{User: r.User.Value(), SafetyID: r.SafetyIdentifier.Value(), Metadata: members(r.Metadata.Value())}
	d.out.Service.Tier = string(r.ServiceTier.Value())
	d.out.Cache = llm.Cache{Key: r.PromptCacheKey.Value(), Retention: r.PromptCacheRetention.Value()}
	d.out.State.Store = ptr(r.Store)
}

// rest keeps the members that only this protocol has.
func (d *requestDecoder) rest() {
	r, e := d.wire, &d.out.Ext
	keep(e, "audio", r.Audio)
	keep(e, "prediction", r.Prediction)
	keep(e, "web_search_options", r.WebSearchOptions)
	keep(e, "moderation", r.Moderation)
	keep(e, "prompt_cache_options", r.PromptCacheOptions)
	if o, ok := r.StreamOptions.Get(); ok && (o.IncludeObfuscation.IsSet() || len(o.Extra.All()) > 0) {
		keep(e, "stream_options", r.StreamOptions)
	}
	if len(r.NvExt) > 0 {
		e.Members = append(e.Members, llm.Member{Name: "nvext", Value: llm.Raw(r.NvExt)})
	}
}

func ptr[T any](o wire.Opt[T]) *T {
	if v, ok := o.Get(); ok {
		return &v
	}
	return nil
}

func opt[T any](p *T) wire.Opt[T] {
	if p == nil {
		return wire.Opt[T]{}
	}
	return wire.Some(*p)
}

func number(o wire.Opt[wire.Number]) llm.Number { return llm.Number(o.Value()) }

func (d *requestDecoder) int(name string, o wire.Opt[wire.Number]) *int64 {
	n, ok := o.Get()
	if !ok {
		return nil
	}
	i, err := n.Int64()
	if err != nil {
		d.fail(name, name+" must be a whole number")
		return nil
	}
	return &i
}

// EncodeRequest writes a request for POST /v1/chat/completions.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	e := requestEncoder{in: req, target: target, report: report, names: map[string]llm.ToolRef{}}
	e.out.Model = wire.Some(target.Model)
	e.messages()
	e.tools()
	e.output()
	e.sampling()
	e.identity()
	e.rest()
	if err := report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	body, err := requestShape.Marshal(&e.out)
	if err != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.InvalidRequest, Message: "the request cannot be written as chat completions", Cause: err}
	}
	return protocol.Outgoing{Body: body, Path: "/v1/chat/completions", Header: http.Header{}, Names: e.names}, nil
}

// requestEncoder carries a request from the neutral model to the wire.
type requestEncoder struct {
	in     *llm.Request
	out    Request
	target protocol.Target
	report *llm.Report
	names  map[string]llm.ToolRef
	ids    *pairing
}

func (e *requestEncoder) output() {
	o := e.in.Output
	if o.MaxTokens != nil {
		n := wire.Some(wire.Int(*o.MaxTokens))
		switch {
		case *o.MaxTokens == 0:
			e.report.Refuse("output.max_tokens", "max_tokens.zero", "a limit of 0 tokens only warms a cache, which this protocol cannot do")
		case e.target.Gates.MaxTokensName == "max_tokens":
			e.out.MaxTokens = n
		default:
			e.out.MaxCompletionTokens = n
		}
	}
	if o.Choices != nil {
		e.out.N = wire.Some(wire.Int(*o.Choices))
	}
	e.out.Logprobs = opt(o.Logprobs)
	if o.TopLogprobs != nil {
		e.out.TopLogprobs = wire.Some(wire.Int(*o.TopLogprobs))
	}
	if o.Verbosity != "" {
		e.out.Verbosity = wire.Some(Verbosity(o.Verbosity))
	}
	for _, m := range o.Modalities {
		e.out.Modalities = wire.Some(append(e.out.Modalities.Value(), Modality(m)))
	}
	e.stops(o.Stops)
	e.format(o.Format)
	e.effort()
	if e.in.Stream {
		e.out.Stream = wire.Some(true)
		if e.in.IncludeUsage {
			e.out.StreamOptions = wire.Some(StreamOptions{IncludeUsage: wire.Some(true)})
		}
	}
}

func (e *requestEncoder) stops(stops []string) {
	switch {
	case len(stops) == 0:
	case e.target.Gates.NoStop:
		e.report.Drop("output.stops", "stop.unsupported_by_model", "this model takes no stop sequences")
	case len(stops) > maxStops:
		e.report.Refuse("output.stops", "stop.too_many", "at most "+strconv.Itoa(maxStops)+" stop sequences can be sent")
	default:
		e.out.Stop = wire.Some(Stop{Many: wire.Some(stops)})
	}
}

func (e *requestEncoder) format(f llm.Format) {
	outer, inner := extrasOf(f.Ext, "json_schema")
	protocol.DropExt(e.report, "output.format", f.Ext, protocol.OpenAIChat)
	if f.Kind == "enum" {
		e.report.Approximate("output.format", "format.enum", "the words are sent as a schema; the answer is one of them as JSON")
	}
	switch f.Kind {
	case "":
	case "json_schema", "enum":
		s := JSONSchema{Name: wire.Some(f.Name), Schema: wire.Raw(f.Schema), Strict: opt(f.Strict), Extra: inner}
		if f.Name == "" {
			s.Name = wire.Some("answer")
		}
		if f.Description != "" {
			s.Description = wire.Some(wire.NewText(f.Description))
		}
		e.out.ResponseFormat = wire.Some(ResponseFormat{Type: wire.Some(FormatJSONSchema), JSONSchema: wire.Some(s), Extra: outer})
	default:
		e.out.ResponseFormat = wire.Some(ResponseFormat{Type: wire.Some(FormatType(f.Kind)), Extra: outer})
	}
}

// bands turns a budget of reasoning tokens into an effort. Each effort's own
// budget lies in its band, so that going there and back changes nothing.
var bands = []struct {
	below  int64
	effort string
}{{1024, "minimal"}, {4096, "low"}, {12288, "medium"}, {24576, "high"}, {49152, "xhigh"}}

func (e *requestEncoder) effort() {
	r := e.in.Reasoning
	protocol.DropExt(e.report, "reasoning", r.Ext, protocol.OpenAIChat)
	if r.Show != "" && r.Show != "none" {
		e.report.Drop("reasoning.show", "reasoning.show_unsupported", "what of the reasoning is shown cannot be said in chat completions")
	}
	effort := r.Effort
	switch {
	case effort != "":
	case r.Mode == "off":
		effort = "none"
	case r.Budget != nil && *r.Budget >= 0:
		effort = "max"
		for _, b := range bands {
			if *r.Budget < b.below {
				effort = b.effort
				break
			}
		}
		if *r.Budget == 0 {
			effort = "none"
		}
		e.report.Approximate("reasoning.budget", "effort.from_budget", "a budget of "+strconv.FormatInt(*r.Budget, 10)+" tokens became the effort "+effort)
	case r.Mode != "" || r.Budget != nil:
		e.report.Approximate("reasoning.mode", "reasoning.default", "how much to think is left to the model")
	}
	if effort == "" {
		return
	}
	e.out.ReasoningEffort = wire.Some(ReasoningEffort(e.knownEffort(effort)))
}

// knownEffort is the nearest effort that the model takes.
func (e *requestEncoder) knownEffort(effort string) string {
	known := e.target.Gates.Efforts
	order := []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	at := -1
	for i, o := range order {
		if o == effort {
			at = i
		}
	}
	if len(known) == 0 || at < 0 {
		return effort
	}
	best, distance := effort, len(order)
	for i, o := range order {
		for _, k := range known {
			if d := max(i-at, at-i); o == k && d < distance {
				best, distance = k, d
			}
		}
	}
	if best != effort {
		e.report.Approximate("reasoning.effort", "effort.nearest", "the model does not know the effort "+effort+"; "+best+" was sent")
	}
	return best
}

func (e *requestEncoder) sampling() {
	s := e.in.Sampling
	if e.target.Gates.NoSampling {
		if s.Temperature != "" || s.TopP != "" {
			e.report.Drop("sampling", "sampling.unsupported_by_model", "this model takes neither temperature nor top_p")
		}
	} else {
		e.out.Temperature, e.out.TopP = numberOpt(s.Temperature), numberOpt(s.TopP)
	}
	e.out.FrequencyPenalty, e.out.PresencePenalty, e.out.Seed = numberOpt(s.FrequencyPenalty), numberOpt(s.PresencePenalty), numberOpt(s.Seed)
	if s.TopK != "" {
		e.report.Drop("sampling.top_k", "top_k.unsupported", "chat completions have no top_k")
	}
	if s.LogitBias != "" {
		var o wire.Object
		if json.Unmarshal([]byte(s.LogitBias), &o) == nil {
			e.out.LogitBias = wire.Some(o)
		}
	}
}

func numberOpt(n llm.Number) wire.Opt[wire.Number] {
	if n == "" {
		return wire.Opt[wire.Number]{}
	}
	return wire.Some(wire.Number(n))
}

func (e *requestEncoder) identity() {
	in := e.in
	e.out.User, e.out.SafetyIdentifier = text(in.Identity.User), text(in.Identity.SafetyID)
	if len(in.Identity.Metadata) > 0 {
		e.out.Metadata = wire.Some(objectOf(in.Identity.Metadata))
	}
	if in.Service.Tier != "" {
		e.out.ServiceTier = wire.Some(ServiceTier(in.Service.Tier))
	}
	if in.Service.Speed == "fast" {
		e.out.ServiceTier = wire.Some(TierFast)
		e.report.Approximate("service.speed", "speed.as_tier", "the speed fast became the service tier fast")
	}
	e.out.PromptCacheKey, e.out.PromptCacheRetention = text(in.Cache.Key), text(in.Cache.Retention)
	if in.Cache.Auto != nil {
		e.report.Drop("cache.auto", "cache.automatic", "this protocol's servers cache by themselves")
	}
	e.out.Store = opt(in.State.Store)
	switch {
	case in.State.PreviousID != "":
		e.report.Refuse("state.previous_id", "state.previous_response", "the answer that previous_response_id names is not kept here; send the whole conversation as input")
	case in.State.Conversation != "":
		e.report.Refuse("state.conversation", "state.conversation", "conversations are not kept here; send the whole conversation as input")
	case in.State.Background != nil && *in.State.Background:
		e.report.Refuse("state.background", "state.background", "an answer cannot be made in the background here")
	}
	if in.State.Truncation != "" && in.State.Truncation != "disabled" {
		e.report.Drop("state.truncation", "truncation.unsupported", "the conversation is sent as it is")
	}
}

func text(s string) wire.Opt[string] {
	if s == "" {
		return wire.Opt[string]{}
	}
	return wire.Some(s)
}

// rest writes the members that only this protocol has, and reports those of
// others.
func (e *requestEncoder) rest() {
	ext := e.in.Ext
	if ext.Protocol == own {
		for _, m := range ext.Members {
			if m.Name == "stream_options" {
				e.streamOptions(m.Value)
			} else {
				e.out.Extra.Set(m.Name, wire.Raw(m.Value))
			}
		}
		return
	}
	protocol.DropExt(e.report, "ext", ext, protocol.OpenAIChat)
}

// streamOptions are the client's own, with usage as it is wanted now.
func (e *requestEncoder) streamOptions(raw llm.Raw) {
	var o StreamOptions
	if streamOptionsShape.Unmarshal([]byte(raw), &o) != nil {
		return
	}
	o.IncludeUsage = e.out.StreamOptions.Value().IncludeUsage
	e.out.StreamOptions = wire.Some(o)
}
