package openaichat

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeRequest decodes the body of POST /v1/chat/completions.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var r Request
	if err := wire.Unmarshal(in.Body, &r); err != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: "the request is not one of chat completions: " + err.Error(), Cause: err}
	}
	d := requestDecoder{wire: &r, out: &llm.Request{Model: r.Model.Value(), Stream: r.Stream.Value()}}
	d.out.IncludeUsage = r.StreamOptions.Value().IncludeUsage.Value()
	// The protocol is set even without members: it says whose file ids and cache
	// marks the request holds.
	d.out.Ext = llm.Ext{Protocol: own, Members: codec.Members(r.Extra.All())}
	d.turns()
	d.tools()
	d.output()
	d.identity()
	d.rest()
	return d.out, d.err
}

// requestDecoder decodes one request into the neutral model.
type requestDecoder struct {
	wire *Request
	out  *llm.Request
	err  *llm.Error
	fifo map[string][]string // ids made for deprecated function calls, by name, that have no result yet
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
	o.Logprobs = r.Logprobs.Clone()
	o.Verbosity = r.Verbosity.Value()
	o.Stops = r.Stop.Value().Sequences()
	o.Modalities = r.Modalities.Value()
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
	d.out.Reasoning.Effort = r.ReasoningEffort.Value()
}

func (d *requestDecoder) identity() {
	r := d.wire
	d.out.Identity = llm.Identity{User: r.User.Value(), SafetyID: r.SafetyIdentifier.Value(), Metadata: codec.Members(r.Metadata.Value())}
	d.out.Service.Tier = r.ServiceTier.Value()
	d.out.Cache = llm.Cache{Key: r.PromptCacheKey.Value(), Retention: r.PromptCacheRetention.Value()}
	d.out.State.Store = r.Store.Clone()
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

func number(o wire.Opt[wire.Number]) llm.Number { return llm.Number(o.Value()) }

func (d *requestDecoder) int(name string, o wire.Opt[wire.Number]) *int64 {
	n, ok := o.Get()
	if !ok {
		return nil
	}
	i, err := n.Int64()
	if err != nil {
		d.fail(name, name+" must be an integer")
		return nil
	}
	return &i
}

// nvExtRules describes the members of NVIDIA Dynamo's extension. Members that are
// not listed pass unchecked.
var nvExtRules = []struct {
	name  string
	valid func(jsontext.Value) bool
	want  string
}{
	{"ignore_eos", isBool, "true or false"},
	{"greed_sampling", isBool, "true or false"},
	{"greedy_sampling", isBool, "true or false"}, // the name in Dynamo's documentation, K50
	{"use_raw_prompt", isBool, "true or false"},
	{"top_k", isTopK, "-1, or an integer from 1"},
	{"repetition_penalty", isPenalty, "a number above 0 and at most 2"},
	{"annotations", isStrings, "a list of strings"},
}

// CheckNvExt validates the value of a request's nvext member.
func CheckNvExt(raw jsontext.Value) *llm.Error {
	var members map[string]jsontext.Value
	if json.Unmarshal(raw, &members, jsontext.AllowInvalidUTF8(true)) != nil { // lone surrogates are left to the upstream
		return badNvExt("nvext", "an object without repeated names")
	}
	for _, r := range nvExtRules {
		if v, ok := members[r.name]; ok && v.Kind() != 'n' && !r.valid(v) {
			return badNvExt("nvext."+r.name, r.want)
		}
	}
	return nil
}

func badNvExt(param, want string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: param, Message: param + " must be " + want}
}

func isBool(v jsontext.Value) bool { return v.Kind() == 't' || v.Kind() == 'f' }

func isTopK(v jsontext.Value) bool {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return err == nil && (n == -1 || n >= 1)
}

func isPenalty(v jsontext.Value) bool {
	f, err := strconv.ParseFloat(string(v), 64)
	return err == nil && f > 0 && f <= 2
}

func isStrings(v jsontext.Value) bool {
	var list []jsontext.Value
	notString := func(item jsontext.Value) bool { return item.Kind() != '"' }
	return json.Unmarshal(v, &list, wire.Lenient) == nil && !slices.ContainsFunc(list, notString)
}
