package loss

import "github.com/isogloss-gateway/isogloss/llm"

func settingSamples() []sample {
	return append(append(limitSamples(), samplingSamples()...), append(reasoningSamples(), serviceSamples()...)...)
}

func output(f func(o *llm.Output)) func(*llm.Request, scene) {
	return func(r *llm.Request, _ scene) { f(&r.Output) }
}

func formatted(f llm.Format) func(*llm.Request, scene) {
	return func(r *llm.Request, _ scene) { r.Output.Format = f }
}

// structured is a request whose answer has a schema.
func structured(s scene) *llm.Request {
	r := hello(s)
	r.Output.Format = llm.Format{Kind: "json_schema", Schema: aSchema}
	return r
}

func limitSamples() []sample {
	format := func(f func(f *llm.Format)) func(*llm.Request, scene) {
		return func(r *llm.Request, _ scene) { f(&r.Output.Format) }
	}
	return []sample{
		{fields: "output.max_tokens", set: output(func(o *llm.Output) { o.MaxTokens = new(int64(1234)) }), find: "1234"},
		{fields: "output.max_tokens", when: "unset", set: output(func(o *llm.Output) { o.MaxTokens = nil })},
		{fields: "output.max_tokens", when: "0: only fill the cache", set: output(func(o *llm.Output) { o.MaxTokens = new(int64(0)) })},
		{fields: "output.choices", when: "1", set: output(func(o *llm.Output) { o.Choices = new(int64(1)) })},
		{fields: "output.choices", when: "2 to 8", set: output(func(o *llm.Output) { o.Choices = new(int64(2)) })},
		{fields: "output.choices", when: "more than 8", set: output(func(o *llm.Output) { o.Choices = new(int64(9)) })},
		{fields: "output.stops", when: "up to 4", set: output(func(o *llm.Output) { o.Stops = []string{aNeedle} }), find: aNeedle},
		{fields: "output.stops", when: "5", set: output(func(o *llm.Output) { o.Stops = []string{"a", "b", "c", "d", aNeedle} }), find: aNeedle},
		{fields: "output.stops", when: "6 or more", set: output(func(o *llm.Output) { o.Stops = []string{"a", "b", "c", "d", "e", aNeedle} }), find: aNeedle},
		{fields: "output.stops", when: "white space only", set: output(func(o *llm.Output) { o.Stops = []string{"\n"} }), find: `\n`},
		{fields: "output.stops", when: "on a model that takes none", set: output(func(o *llm.Output) { o.Stops = []string{aNeedle} }), gates: gates{NoStop: true}},
		{fields: "output.verbosity", set: output(func(o *llm.Output) { o.Verbosity = "low" }), find: "low"},
		{fields: "output.modalities", when: "text", set: output(func(o *llm.Output) { o.Modalities = []string{"text"} })},
		{fields: "output.modalities", when: "audio", set: output(func(o *llm.Output) { o.Modalities = []string{"text", "audio"} })},
		{fields: "output.modalities", when: "image", set: output(func(o *llm.Output) { o.Modalities = []string{"text", "image"} })},
		{fields: "output.logprobs", set: output(func(o *llm.Output) { o.Logprobs = new(true) })},
		{fields: "output.top_logprobs", set: output(func(o *llm.Output) { o.Logprobs, o.TopLogprobs = new(true), new(int64(3)) })},
		{fields: "output.format.kind", when: "text", set: formatted(llm.Format{Kind: "text"})},
		{fields: "output.format.kind", when: "json_object", set: formatted(llm.Format{Kind: "json_object"})},
		{fields: "output.format.kind output.format.schema", when: "json_schema", set: formatted(llm.Format{Kind: "json_schema", Schema: aSchema}), find: aNeedle},
		{fields: "output.format.schema", when: "missing", set: formatted(llm.Format{Kind: "json_schema"})},
		{fields: "output.format.schema", when: "keywords beyond the vendor's", base: structured, set: format(func(f *llm.Format) {
			f.Schema = `{"type":"object","properties":{"a":{"type":"integer","multipleOf":3}}}`
		})},
		{fields: "output.format.schema", when: "refers to itself", base: structured, set: format(func(f *llm.Format) {
			f.Schema = `{"type":"object","properties":{"a":{"$ref":"#"}}}`
		})},
		{fields: "output.format.kind", when: "enum", set: formatted(llm.Format{Kind: "enum", Schema: `{"type":"string","enum":["n33dle"]}`}), find: aNeedle},
		{fields: "output.format.name", base: structured, set: format(func(f *llm.Format) { f.Name = "my_form" }), find: "my_form"},
		{fields: "output.format.description", base: structured, set: format(func(f *llm.Format) { f.Description = "my form" }), find: "my form"},
		{fields: "output.format.strict", when: "true", base: structured, set: format(func(f *llm.Format) { f.Strict = new(true) })},
		{fields: "output.format.strict", when: "false", base: structured, set: format(func(f *llm.Format) { f.Strict = new(false) })},
		{fields: "output.format.ext", when: "of the same protocol", base: func(s scene) *llm.Request {
			r := structured(s)
			r.Ext.Protocol, r.Output.Format.Ext.Protocol = s.own, s.own
			return r
		}, set: func(r *llm.Request, s scene) { r.Output.Format.Ext = member(s.own) }, find: aNeedle},
		{fields: "output.format.ext", when: "of another protocol", base: structured, set: func(r *llm.Request, s scene) { r.Output.Format.Ext = member(s.other) }},
	}
}

func sampling(f func(s *llm.Sampling)) func(*llm.Request, scene) {
	return func(r *llm.Request, _ scene) { f(&r.Sampling) }
}

func samplingSamples() []sample {
	return []sample{
		{fields: "sampling.temperature", when: "up to 1", set: sampling(func(s *llm.Sampling) { s.Temperature = "0.70" }), find: "0.70"},
		{fields: "sampling.temperature", when: "over 1", set: sampling(func(s *llm.Sampling) { s.Temperature = "1.5" }), find: "1.5"},
		{fields: "sampling.temperature", when: "while the model thinks", base: thinking, set: sampling(func(s *llm.Sampling) { s.Temperature = "0.7" }), find: "0.7"},
		{fields: "sampling.temperature", when: "on a model that takes none", set: sampling(func(s *llm.Sampling) { s.Temperature = "0.7" }), gates: gates{NoSampling: true}},
		{fields: "sampling.top_p", set: sampling(func(s *llm.Sampling) { s.TopP = "0.9" }), find: "0.9"},
		{fields: "sampling.top_p", when: "while the model thinks", base: thinking, set: sampling(func(s *llm.Sampling) { s.TopP = "0.5" }), find: "0.5"},
		{fields: "sampling.top_p", when: "on a model that takes none", set: sampling(func(s *llm.Sampling) { s.TopP = "0.9" }), gates: gates{NoSampling: true}},
		{fields: "sampling.top_k", set: sampling(func(s *llm.Sampling) { s.TopK = "40" }), find: "40"},
		{fields: "sampling.top_k", when: "while the model thinks", base: thinking, set: sampling(func(s *llm.Sampling) { s.TopK = "40" }), find: "40"},
		{fields: "sampling.top_k", when: "on a model that takes none", set: sampling(func(s *llm.Sampling) { s.TopK = "40" }), gates: gates{NoSampling: true}},
		{fields: "sampling.frequency_penalty", set: sampling(func(s *llm.Sampling) { s.FrequencyPenalty = "0.5" }), find: "0.5"},
		{fields: "sampling.presence_penalty", set: sampling(func(s *llm.Sampling) { s.PresencePenalty = "0.5" }), find: "0.5"},
		{fields: "sampling.seed", when: "of 32 bits", set: sampling(func(s *llm.Sampling) { s.Seed = "1234" }), find: "1234"},
		{fields: "sampling.seed", when: "larger", set: sampling(func(s *llm.Sampling) { s.Seed = "12345678901" }), find: "12345678901"},
		{fields: "sampling.logit_bias", set: sampling(func(s *llm.Sampling) { s.LogitBias = `{"1234":-5}` }), find: "1234"},
	}
}

// thinking is a request with a budget for thinking.
func thinking(s scene) *llm.Request {
	r := hello(s)
	r.Reasoning.Budget = new(int64(2048))
	return r
}

func think(f func(g *llm.Reasoning)) func(*llm.Request, scene) {
	return func(r *llm.Request, _ scene) { f(&r.Reasoning) }
}

func reasoningSamples() []sample {
	effort := func(e string) func(*llm.Request, scene) { return think(func(g *llm.Reasoning) { g.Effort = e }) }
	budget := func(n int64) func(*llm.Request, scene) { return think(func(g *llm.Reasoning) { g.Budget = &n }) }
	mode := func(m string) func(*llm.Request, scene) { return think(func(g *llm.Reasoning) { g.Mode = m }) }
	show := func(s string) func(*llm.Request, scene) { return think(func(g *llm.Reasoning) { g.Show = s }) }
	return []sample{
		{fields: "reasoning.mode", when: "off", set: mode("off")},
		{fields: "reasoning.mode", when: "on or auto", set: mode("auto")},
		{fields: "reasoning.mode", when: "on or auto, on a model set by effort", set: mode("auto"), gates: gates{Adaptive: true}},
		{fields: "reasoning.mode", when: "between_tools", set: mode("between_tools")},
		{fields: "reasoning.mode", when: "between_tools, on a model set by effort", set: mode("between_tools"), gates: gates{Adaptive: true}},
		{fields: "reasoning.effort", when: "none", set: effort("none")},
		{fields: "reasoning.effort", when: "minimal", set: effort("minimal")},
		{fields: "reasoning.effort", when: "low to high", set: effort("high")},
		{fields: "reasoning.effort", when: "low to high, on a model set by effort", set: effort("high"), gates: gates{Adaptive: true}},
		{fields: "reasoning.effort", when: "minimal, on a model set by effort", set: effort("minimal"), gates: gates{Adaptive: true}},
		{fields: "reasoning.effort", when: "low to high, on a model set by a budget", set: effort("low"), gates: gates{Budget: true}},
		{fields: "reasoning.effort", when: "xhigh or max", set: effort("xhigh")},
		{fields: "reasoning.effort", when: "a level that the model does not know", set: effort("xhigh"), gates: gates{Efforts: []string{"low", "high"}, Adaptive: true}},
		{fields: "reasoning.effort", when: "a word that nobody knows", set: effort(aNeedle), find: aNeedle},
		{fields: "reasoning.budget", when: "1024 or more", set: budget(2048)},
		{fields: "reasoning.budget", when: "1024 or more, on a model set by effort", set: budget(2048), gates: gates{Adaptive: true}},
		{fields: "reasoning.budget", when: "1024 or more, on a model set by a budget", set: budget(2048), gates: gates{Budget: true}},
		{fields: "reasoning.budget", when: "less than 1024", set: budget(512)},
		{fields: "reasoning.budget", when: "beyond the model's, on a model set by a budget", set: budget(100000), gates: gates{Budget: true}},
		{fields: "reasoning.budget", when: "more than max_tokens has room for", base: func(s scene) *llm.Request {
			r := hello(s)
			r.Output.MaxTokens = new(int64(1000))
			return r
		}, set: budget(2048)},
		{fields: "reasoning.budget", when: "0", set: budget(0)},
		{fields: "reasoning.budget", when: "-1: the model decides", set: budget(-1)},
		{fields: "reasoning.budget", when: "-1: the model decides, on a model set by a budget", set: budget(-1), gates: gates{Budget: true}},
		{fields: "reasoning.budget", when: "while a tool is forced", base: func(s scene) *llm.Request {
			r := tooled(s)
			r.ToolChoice.Mode = "required"
			return r
		}, set: budget(2048)},
		{fields: "reasoning.budget", when: "while calls without signed reasoning are answered", base: working, set: budget(2048)},
		{fields: "reasoning.show", when: "none", base: thinking, set: show("none")},
		{fields: "reasoning.show", when: "auto, concise or detailed", base: thinking, set: show("detailed")},
		{fields: "reasoning.show", when: "full", base: thinking, set: show("full")},
		{fields: "reasoning.ext", when: "of the same protocol", base: func(s scene) *llm.Request {
			r := thinking(s)
			r.Ext.Protocol, r.Reasoning.Ext.Protocol, r.Reasoning.Mode = s.own, s.own, "on"
			return r
		}, set: func(r *llm.Request, s scene) { r.Reasoning.Ext = member(s.own) }, find: aNeedle},
		{fields: "reasoning.ext", when: "of another protocol", base: thinking, set: func(r *llm.Request, s scene) { r.Reasoning.Ext = member(s.other) }},
	}
}

func serviceSamples() []sample {
	tier := func(t string) func(*llm.Request, scene) { return func(r *llm.Request, _ scene) { r.Service.Tier = t } }
	state := func(f func(s *llm.State)) func(*llm.Request, scene) {
		return func(r *llm.Request, _ scene) { f(&r.State) }
	}
	return []sample{
		{fields: "cache.key", set: func(r *llm.Request, _ scene) { r.Cache.Key = aNeedle }, find: aNeedle},
		{fields: "cache.retention", set: func(r *llm.Request, _ scene) { r.Cache.Retention = "24h" }, find: "24h"},
		{fields: "cache.auto", set: func(r *llm.Request, _ scene) { r.Cache.Auto = &llm.CacheMark{TTL: "5m"} }, find: "5m"},
		{fields: "state.store", when: "true", set: state(func(s *llm.State) { s.Store = new(true) })},
		{fields: "state.store", when: "false", set: state(func(s *llm.State) { s.Store = new(false) })},
		{fields: "state.previous_id", set: state(func(s *llm.State) { s.PreviousID = aNeedle }), find: aNeedle},
		{fields: "state.conversation", set: state(func(s *llm.State) { s.Conversation = `"n33dle"` }), find: aNeedle},
		{fields: "state.background", set: state(func(s *llm.State) { s.Background = new(true) })},
		{fields: "state.truncation", set: state(func(s *llm.State) { s.Truncation = "auto" })},
		{fields: "identity.user", set: func(r *llm.Request, _ scene) { r.Identity.User = aNeedle }, find: aNeedle},
		{fields: "identity.safety_id", set: func(r *llm.Request, _ scene) { r.Identity.SafetyID = aNeedle }, find: aNeedle},
		{fields: "identity.safety_id", when: "beside a user", base: func(s scene) *llm.Request { r := hello(s); r.Identity.User = "u"; return r },
			set: func(r *llm.Request, _ scene) { r.Identity.SafetyID = aNeedle }, find: aNeedle},
		{fields: "identity.metadata", set: func(r *llm.Request, _ scene) { r.Identity.Metadata = []llm.Member{{Name: "team", Value: `"n33dle"`}} }, find: aNeedle},
		{fields: "service.tier", when: "auto", set: tier("auto")},
		{fields: "service.tier", when: "default", set: tier("default")},
		{fields: "service.tier", when: "priority", set: tier("priority")},
		{fields: "service.tier", when: "flex", set: tier("flex")},
		{fields: "service.tier", when: "scale", set: tier("scale")},
		{fields: "service.tier", when: "another word", set: tier(aNeedle)},
		{fields: "service.speed", set: func(r *llm.Request, _ scene) { r.Service.Speed = "fast" }, find: "fast"},
	}
}
