package all_test

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

func outputSamples() []requestSample {
	return []requestSample{
		{name: "output.max_tokens", set: func(r request) { r.Output.MaxTokens = new(int64(1234)) }, find: "1234"},
		{name: "output.max_tokens: unset", set: func(r request) { r.Output.MaxTokens = nil }},
		{name: "output.max_tokens: 0: only fill the cache", set: func(r request) { r.Output.MaxTokens = new(int64(0)) }},
		{name: "output.max_tokens: 1 to 15", set: func(r request) { r.Output.MaxTokens = new(int64(7)) }},
		{name: "output.choices: 1", set: func(r request) { r.Output.Choices = new(int64(1)) }},
		{name: "output.choices: 2 to 8", set: func(r request) { r.Output.Choices = new(int64(2)) }},
		{name: "output.choices: more than 8", set: func(r request) { r.Output.Choices = new(int64(9)) }},
		{name: "output.stops: up to 4", set: func(r request) { r.Output.Stops = []string{needle} }, find: needle},
		{name: "output.stops: 5", set: func(r request) { r.Output.Stops = []string{"a", "b", "c", "d", needle} }, find: needle},
		{name: "output.stops: 6 or more", set: func(r request) { r.Output.Stops = []string{"a", "b", "c", "d", "e", needle} }, find: needle},
		{name: "output.stops: white space only", set: func(r request) { r.Output.Stops = []string{"\n"} }, find: `\n`},
		{name: "output.stops: on a model that takes none", set: func(r request) { r.Output.Stops = []string{needle} }, gates: gates{NoStop: true}},
		{name: "output.verbosity", set: func(r request) { r.Output.Verbosity = "low" }, find: "low"},
		{name: "output.modalities: text", set: func(r request) { r.Output.Modalities = []string{"text"} }},
		{name: "output.modalities: audio", set: func(r request) { r.Output.Modalities = []string{"text", "audio"} }},
		{name: "output.modalities: image", set: func(r request) { r.Output.Modalities = []string{"text", "image"} }},
		{name: "output.logprobs", set: func(r request) { r.Output.Logprobs = new(true) }},
		{name: "output.top_logprobs", set: func(r request) { r.Output.Logprobs, r.Output.TopLogprobs = new(true), new(int64(3)) }},
	}
}

func formatSamples() []requestSample {
	format := func(f llm.Format) requestEdit {
		return func(r request) { r.Output.Format = f }
	}
	return []requestSample{
		{name: "output.format.kind: text", set: format(llm.Format{Kind: "text"})},
		{name: "output.format.kind: json_object", set: format(llm.Format{Kind: "json_object"})},
		{name: "output.format.kind .format.schema: json_schema", set: format(llm.Format{Kind: "json_schema", Schema: needleSchema}), find: needle},
		{name: "output.format.kind .format.schema: json_schema, for objects with other members", set: format(llm.Format{Kind: "json_schema", Schema: openSchema}), find: needle},
		{name: "output.format.schema: missing", set: format(llm.Format{Kind: "json_schema"})},
		{name: "output.format.schema: keywords beyond the vendor's", base: withSchema, set: func(r request) { r.Output.Format.Schema = keywordSchema }},
		{name: "output.format.schema: refers to itself", base: withSchema, set: func(r request) { r.Output.Format.Schema = recursiveSchema }},
		{name: "output.format.kind: enum", set: format(llm.Format{Kind: "enum", Schema: `{"type":"string","enum":["n33dle"]}`}), find: needle},
		{name: "output.format.name", base: withSchema, set: func(r request) { r.Output.Format.Name = "my_form" }, find: "my_form"},
		{name: "output.format.description", base: withSchema, set: func(r request) { r.Output.Format.Description = "my form" }, find: "my form"},
		{name: "output.format.strict: true", base: withSchema, set: func(r request) { r.Output.Format.Strict = new(true) }},
		{name: "output.format.strict: true, with an optional property", base: withSchema, set: func(r request) { r.Output.Format.Strict, r.Output.Format.Schema = new(true), optionalSchema }},
		{name: "output.format.strict: false", base: withSchema, set: func(r request) { r.Output.Format.Strict = new(false) }},
		{name: "output.format.ext: of the same protocol", base: edits(sameProtocol, withSchema), set: func(r request) { r.Output.Format.Ext = member(r.own) }, find: needle},
		{name: "output.format.ext: of another protocol", base: withSchema, set: func(r request) { r.Output.Format.Ext = member(r.other) }},
	}
}

func samplingSamples() []requestSample {
	return []requestSample{
		{name: "sampling.temperature: up to 1", set: func(r request) { r.Sampling.Temperature = "0.70" }, find: "0.70"},
		{name: "sampling.temperature: over 1", set: func(r request) { r.Sampling.Temperature = "1.5" }, find: "1.5"},
		{name: "sampling.temperature: while the model thinks", base: withBudget, set: func(r request) { r.Sampling.Temperature = "0.7" }, find: "0.7"},
		{name: "sampling.temperature: on a model that takes none", set: func(r request) { r.Sampling.Temperature = "0.7" }, gates: gates{NoSampling: true}},
		{name: "sampling.top_p", set: func(r request) { r.Sampling.TopP = "0.9" }, find: "0.9"},
		{name: "sampling.top_p: while the model thinks", base: withBudget, set: func(r request) { r.Sampling.TopP = "0.5" }, find: "0.5"},
		{name: "sampling.top_p: with a temperature, on a model that takes one of them", base: func(r request) { r.Sampling.Temperature = "0.3" },
			set: func(r request) { r.Sampling.TopP = "0.5" }, find: "0.5", gates: gates{OneSampling: true}},
		{name: "sampling.top_p: on a model that takes none", set: func(r request) { r.Sampling.TopP = "0.9" }, gates: gates{NoSampling: true}},
		{name: "sampling.top_k", set: func(r request) { r.Sampling.TopK = "40" }, find: "40"},
		{name: "sampling.top_k: while the model thinks", base: withBudget, set: func(r request) { r.Sampling.TopK = "40" }, find: "40"},
		{name: "sampling.top_k: on a model that takes none", set: func(r request) { r.Sampling.TopK = "40" }, gates: gates{NoSampling: true}},
		{name: "sampling.temperature: while the model thinks, on a model set by a budget", base: withBudget, set: func(r request) { r.Sampling.Temperature = "0.7" }, find: "0.7", gates: gates{Budget: true}},
		{name: "sampling.top_p: while the model thinks, on a model set by a budget", base: withBudget, set: func(r request) { r.Sampling.TopP = "0.5" }, find: "0.5", gates: gates{Budget: true}},
		{name: "sampling.top_k: while the model thinks, on a model set by a budget", base: withBudget, set: func(r request) { r.Sampling.TopK = "40" }, find: "40", gates: gates{Budget: true}},
		{name: "sampling.frequency_penalty", set: func(r request) { r.Sampling.FrequencyPenalty = "0.5" }, find: "0.5"},
		{name: "sampling.presence_penalty", set: func(r request) { r.Sampling.PresencePenalty = "0.5" }, find: "0.5"},
		{name: "sampling.seed: of 32 bits", set: func(r request) { r.Sampling.Seed = "1234" }, find: "1234"},
		{name: "sampling.seed: larger", set: func(r request) { r.Sampling.Seed = "12345678901" }, find: "12345678901"},
		{name: "sampling.logit_bias", set: func(r request) { r.Sampling.LogitBias = `{"1234":-5}` }, find: "1234"},
	}
}

func reasoningSamples() []requestSample {
	effort := func(e string) requestEdit { return func(r request) { r.Reasoning.Effort = e } }
	budget := func(n int64) requestEdit { return func(r request) { r.Reasoning.Budget = &n } }
	mode := func(m string) requestEdit { return func(r request) { r.Reasoning.Mode = m } }
	show := func(s string) requestEdit { return func(r request) { r.Reasoning.Show = s } }
	return []requestSample{
		{name: "reasoning.mode: off", set: mode("off")},
		{name: "reasoning.mode: off, on a model that always thinks", set: mode("off"), gates: gates{LeastReasoning: "low"}},
		{name: "reasoning.mode: on or auto", set: mode("auto")},
		{name: "reasoning.mode: on or auto, on a model set by effort", set: mode("auto"), gates: gates{Adaptive: true}},
		{name: "reasoning.mode: between_tools", set: mode("between_tools")},
		{name: "reasoning.mode: between_tools, on a model set by effort", set: mode("between_tools"), gates: gates{Adaptive: true}},
		{name: "reasoning.effort: none", set: effort("none")},
		{name: "reasoning.effort: minimal", set: effort("minimal")},
		{name: "reasoning.effort: low to high", set: effort("high")},
		{name: "reasoning.effort: low to high, on a model set by effort", set: effort("high"), gates: gates{Adaptive: true}},
		{name: "reasoning.effort: minimal, on a model set by effort", set: effort("minimal"), gates: gates{Adaptive: true}},
		{name: "reasoning.effort: low to high, on a model set by a budget", set: effort("low"), gates: gates{Budget: true}},
		{name: "reasoning.effort: xhigh or max", set: effort("xhigh")},
		{name: "reasoning.effort: a level that the model does not know", set: effort("xhigh"), gates: gates{Efforts: []string{"low", "high"}, Adaptive: true}},
		{name: "reasoning.effort: a word that nobody knows", set: effort(needle), find: needle},
		{name: "reasoning.budget: 1024 or more", set: budget(2048)},
		{name: "reasoning.budget: 1024 or more, on a model set by effort", set: budget(2048), gates: gates{Adaptive: true}},
		{name: "reasoning.budget: 1024 or more, on a model set by a budget", set: budget(2048), gates: gates{Budget: true}},
		{name: "reasoning.budget: less than 1024", set: budget(512)},
		{name: "reasoning.budget: beyond the model's, on a model set by a budget", set: budget(100000), gates: gates{Budget: true}},
		{name: "reasoning.budget: more than max_tokens has room for", base: func(r request) { r.Output.MaxTokens = new(int64(1000)) }, set: budget(2048)},
		{name: "reasoning.budget: 0", set: budget(0)},
		{name: "reasoning.budget: -1: the model decides", set: budget(-1)},
		{name: "reasoning.budget: -1: the model decides, on a model set by a budget", set: budget(-1), gates: gates{Budget: true}},
		{name: "reasoning.budget: while a tool is forced", base: edits(withTool, choose("required")), set: budget(2048)},
		{name: "reasoning.budget: while the assistant speaks last", base: insertTurn(1, llm.Assistant, text("hi")), set: budget(2048)},
		{name: "reasoning.budget: while calls without signed reasoning are answered", base: withToolResult, set: budget(2048)},
		{name: "reasoning.budget: more than max_tokens has room for, on a model set by a budget", base: func(r request) { r.Output.MaxTokens = new(int64(1000)) }, set: budget(2048), gates: gates{Budget: true}},
		{name: "reasoning.budget: while a tool is forced, on a model set by a budget", base: edits(withTool, choose("required")), set: budget(2048), gates: gates{Budget: true}},
		{name: "reasoning.budget: while the assistant speaks last, on a model set by a budget", base: insertTurn(1, llm.Assistant, text("hi")), set: budget(2048), gates: gates{Budget: true}},
		{name: "reasoning.budget: while calls without signed reasoning are answered, on a model set by a budget", base: withToolResult, set: budget(2048), gates: gates{Budget: true}},
		{name: "reasoning.show: none", base: withBudget, set: show("none")},
		{name: "reasoning.show: auto, concise or detailed", base: withBudget, set: show("detailed")},
		{name: "reasoning.show: full", base: withBudget, set: show("full")},
		{name: "reasoning.ext: of the same protocol", base: edits(sameProtocol, withBudget, mode("on")), set: func(r request) { r.Reasoning.Ext = member(r.own) }, find: needle},
		{name: "reasoning.ext: of another protocol", base: withBudget, set: func(r request) { r.Reasoning.Ext = member(r.other) }},
	}
}

func serviceSamples() []requestSample {
	tier := func(t string) requestEdit { return func(r request) { r.Service.Tier = t } }
	return []requestSample{
		{name: "cache.key", set: func(r request) { r.Cache.Key = needle }, find: needle},
		{name: "cache.retention", set: func(r request) { r.Cache.Retention = "24h" }, find: "24h"},
		{name: "cache.auto", set: func(r request) { r.Cache.Auto = &llm.CacheMark{TTL: "5m"} }, find: "5m"},
		{name: "state.store: true", set: func(r request) { r.State.Store = new(true) }},
		{name: "state.store: false", set: func(r request) { r.State.Store = new(false) }},
		{name: "state.previous_id", set: func(r request) { r.State.PreviousID = needle }, find: needle},
		{name: "state.conversation", set: func(r request) { r.State.Conversation = `"n33dle"` }, find: needle},
		{name: "state.background", set: func(r request) { r.State.Background = new(true) }},
		{name: "state.truncation", set: func(r request) { r.State.Truncation = "auto" }},
		{name: "state.cached_prompt", set: func(r request) { r.State.CachedPrompt = `"n33dle"` }, find: needle},
		{name: "identity.user: of more than 64 characters", set: func(r request) { r.Identity.User = strings.Repeat(needle, 12) }, find: needle},
		{name: "identity.user", set: func(r request) { r.Identity.User = needle }, find: needle},
		{name: "identity.safety_id", set: func(r request) { r.Identity.SafetyID = needle }, find: needle},
		{name: "identity.safety_id: beside a user", base: func(r request) { r.Identity.User = "u" },
			set: func(r request) { r.Identity.SafetyID = needle }, find: needle},
		{name: "identity.metadata", set: func(r request) { r.Identity.Metadata = []llm.Member{{Name: "team", Value: `"n33dle"`}} }, find: needle},
		{name: "identity.metadata: with other signs", set: func(r request) { r.Identity.Metadata = []llm.Member{{Name: "team", Value: `"n33dle!"`}} }, find: needle},
		{name: "service.tier: auto", set: tier("auto")},
		{name: "service.tier: default", set: tier("default")},
		{name: "service.tier: priority", set: tier("priority")},
		{name: "service.tier: flex", set: tier("flex")},
		{name: "service.tier: scale", set: tier("scale")},
		{name: "service.tier: ultrafast", set: tier("ultrafast")},
		{name: "service.tier: another word", set: tier(needle)},
		{name: "service.speed", set: func(r request) { r.Service.Speed = "fast" }, find: "fast"},
	}
}
