package gemini

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (r *reader) generation(g *GenerationConfig) {
	if g == nil {
		return
	}
	e := &r.req.Ext
	keep(e, atGeneration, g.Extra.All())
	for _, m := range []wire.Member{
		{Name: "speechConfig", Value: g.SpeechConfig}, {Name: "imageConfig", Value: g.ImageConfig},
		{Name: "mediaResolution", Value: g.MediaResolution}, {Name: "audioTimestamp", Value: g.AudioTimestamp},
		{Name: "routingConfig", Value: g.RoutingConfig}, {Name: "enableEnhancedCivicAnswers", Value: g.EnableEnhancedCivicAnswers},
		{Name: "audioTranscriptionConfig", Value: g.AudioTranscriptionConfig}, {Name: "responseFormat", Value: g.ResponseFormat},
		{Name: "translationConfig", Value: g.TranslationConfig},
	} {
		keepRaw(e, atGeneration+m.Name, m.Value)
	}
	r.req.Sampling = llm.Sampling{
		Temperature: number(g.Temperature), TopP: number(g.TopP), TopK: number(g.TopK), Seed: number(g.Seed),
		FrequencyPenalty: number(g.FrequencyPenalty), PresencePenalty: number(g.PresencePenalty),
	}
	o := &r.req.Output
	o.MaxTokens = r.integer("maxOutputTokens", g.MaxOutputTokens)
	o.Choices = r.integer("candidateCount", g.CandidateCount)
	o.TopLogprobs = r.integer("logprobs", g.Logprobs)
	o.Stops = g.StopSequences.Value()
	if v, ok := g.ResponseLogprobs.Get(); ok {
		o.Logprobs = &v
	}
	for _, m := range g.ResponseModalities.Value() {
		o.Modalities = append(o.Modalities, strings.ToLower(m))
	}
	o.Format = readFormat(g)
	r.thinking(g.ThinkingConfig.Ptr())
}

// number gives a number's text; a server may have put it between quotes.
func number(o wire.Opt[wire.Number]) llm.Number {
	return llm.Number(strings.Trim(string(o.Value()), `"`))
}

func (r *reader) integer(name string, o wire.Opt[wire.Number]) *int64 {
	v, ok := o.Get()
	if !ok {
		return nil
	}
	n, err := v.Int64()
	if err != nil {
		r.fail(invalid(atGeneration+name, "write a whole number"))
	}
	return &n
}

const (
	mimeText = "text/plain"
	mimeJSON = "application/json"
	mimeEnum = "text/x.enum"
)

func readFormat(g *GenerationConfig) llm.Format {
	f := llm.Format{Schema: llm.Raw(g.ResponseJSONSchema), Ext: llm.Ext{Protocol: own}}
	if len(g.ResponseSchema) > 0 && g.ResponseSchema.Kind() != 'n' {
		note(&f.Ext, "responseSchema", g.ResponseSchema) // for the way home
		if f.Schema == "" {
			f.Schema = llm.Raw(jsonSchema(g.ResponseSchema))
		}
	}
	switch mime := g.ResponseMIMEType.Value(); {
	case mime == mimeEnum:
		f.Kind = "enum"
	case f.Schema != "":
		f.Kind = "json_schema"
	case mime == mimeJSON:
		f.Kind = "json_object"
	case mime == mimeText:
		f.Kind = "text"
	case mime == "":
		return llm.Format{}
	default:
		keepRaw(&f.Ext, "responseMimeType", quote(mime))
	}
	return f
}

func (r *reader) thinking(t *ThinkingConfig) {
	if t == nil {
		return
	}
	g := &r.req.Reasoning
	keep(&g.Ext, "", t.Extra.All())
	if show, ok := t.IncludeThoughts.Get(); ok {
		g.Show = map[bool]string{true: "auto", false: "none"}[show]
	}
	if g.Budget = r.integer("thinkingConfig.thinkingBudget", t.ThinkingBudget); g.Budget != nil && *g.Budget == 0 {
		g.Mode = "off"
	}
	if level := strings.ToLower(t.ThinkingLevel.Value()); level != "thinking_level_unspecified" {
		g.Effort = level
	}
}

func readTier(tier string) string {
	if tier == "standard" {
		return "default"
	}
	return tier
}

func (w *writer) generation() wire.Opt[GenerationConfig] {
	g := GenerationConfig{Extra: extra(w.req.Ext, atGeneration)}
	w.sampling(&g)
	w.output(&g)
	w.format(&g)
	g.ThinkingConfig = w.thinking()
	if body, _ := generationShape.Marshal(&g); string(body) == "{}" {
		return wire.Opt[GenerationConfig]{}
	}
	return wire.Some(g)
}

var generationShape = wire.Describe[GenerationConfig]()

func toNumber(n llm.Number) wire.Opt[wire.Number] {
	if n == "" {
		return wire.Opt[wire.Number]{}
	}
	return wire.Some(wire.Number(n))
}

func (w *writer) sampling(g *GenerationConfig) {
	s := w.req.Sampling
	if w.target.Gates.NoSampling {
		for _, v := range []struct {
			name string
			n    *llm.Number
		}{{"temperature", &s.Temperature}, {"top_p", &s.TopP}, {"top_k", &s.TopK}} {
			if *v.n != "" {
				*v.n = ""
				w.report.Drop("sampling."+v.name, v.name+".unsupported_by_model", "the model refuses it")
			}
		}
	}
	g.Temperature, g.TopP, g.TopK = toNumber(s.Temperature), toNumber(s.TopP), toNumber(s.TopK)
	g.FrequencyPenalty, g.PresencePenalty = toNumber(s.FrequencyPenalty), toNumber(s.PresencePenalty)
	g.Seed = toNumber(s.Seed)
	if n, err := wire.Number(s.Seed).Int64(); s.Seed != "" && (err != nil || n != int64(int32(n))) {
		w.report.Approximate("sampling.seed", "seed.folded", "a seed has 32 bits here")
		g.Seed = wire.Some(wire.Int(n & 0x7fffffff))
	}
	if s.LogitBias != "" {
		w.report.Drop("sampling.logit_bias", "logit_bias.unsupported", "token numbers are each vendor's own")
	}
}

// maxStops and maxCandidates are the API's limits.
const (
	maxStops      = 5
	maxCandidates = 8
)

func (w *writer) output(g *GenerationConfig) {
	o := &w.req.Output
	if o.MaxTokens != nil {
		g.MaxOutputTokens = wire.Some(wire.Int(*o.MaxTokens))
		if *o.MaxTokens <= 0 && w.req.Ext.Protocol != own {
			w.report.Refuse("output.max_tokens", "max_tokens.zero", "an answer has at least one token here")
		}
	}
	if o.Choices != nil && (*o.Choices > 1 || w.req.Ext.Protocol == own) {
		g.CandidateCount = wire.Some(wire.Int(*o.Choices))
		if *o.Choices > maxCandidates {
			w.report.Refuse("output.choices", "choices.too_many", "at most "+strconv.Itoa(maxCandidates)+" answers can be asked for")
		}
	}
	w.stops(g)
	if o.Logprobs != nil {
		g.ResponseLogprobs = wire.Some(*o.Logprobs)
	}
	if o.TopLogprobs != nil {
		g.Logprobs = wire.Some(wire.Int(*o.TopLogprobs))
	}
	if len(o.Modalities) > 0 {
		upper := make([]string, 0, len(o.Modalities))
		for _, m := range o.Modalities {
			upper = append(upper, strings.ToUpper(m))
		}
		if w.req.Ext.Protocol == own || len(upper) > 1 || upper[0] != "TEXT" { // text alone is the default
			g.ResponseModalities = wire.Some(upper)
		}
	}
	if o.Verbosity != "" {
		w.report.Drop("output.verbosity", "verbosity.unsupported", "there is no such setting")
	}
}

func (w *writer) stops(g *GenerationConfig) {
	var stops []string
	for _, s := range w.req.Output.Stops {
		if s != "" {
			stops = append(stops, s)
		}
	}
	switch {
	case len(stops) == 0:
	case w.target.Gates.NoStop:
		w.report.Drop("output.stops", "stop.unsupported_by_model", "the model refuses stop sequences")
	case len(stops) > maxStops:
		w.report.Refuse("output.stops", "stop.too_many", "at most "+strconv.Itoa(maxStops)+" stop sequences can be given")
	default:
		g.StopSequences = wire.Some(stops)
	}
}

func (w *writer) format(g *GenerationConfig) {
	f := &w.req.Output.Format
	protocol.DropExt(w.report, "output.format", f.Ext, protocol.Gemini)
	mime := map[string]string{"json_object": mimeJSON, "json_schema": mimeJSON, "enum": mimeEnum}[f.Kind]
	if f.Ext.Protocol == own {
		w.ownFormat(g, mime)
		return
	}
	if mime != "" {
		g.ResponseMIMEType = wire.Some(mime)
	}
	if f.Kind == "" || f.Kind == "text" {
		return
	}
	if f.Schema != "" {
		g.ResponseJSONSchema = fitSchema(f.Schema, "output.format.schema", w.report)
	}
	w.formatLosses(f)
}

// formatLosses reports what a format has beside its schema.
func (w *writer) formatLosses(f *llm.Format) {
	if f.Schema == "" && f.Kind != "json_object" {
		w.report.Approximate("output.format.schema", "format.schema", "without a schema any JSON will do")
	}
	if f.Name != "" {
		w.report.Drop("output.format.name", "format.name", "a format has no name of its own")
	}
	if f.Description != "" {
		w.report.Drop("output.format.description", "format.description", "a format has no description of its own")
	}
	if f.Strict != nil && *f.Strict {
		w.report.Approximate("output.format.strict", "strict.best_effort", "the API follows a schema as well as it can")
	}
}

// ownFormat writes what a client of this protocol has sent.
func (w *writer) ownFormat(g *GenerationConfig, mime string) {
	f := &w.req.Output.Format
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
