package provider

import (
	"path"
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// gate is a row: the models of a protocol that a pattern matches, and what they
// refuse or want otherwise. Names are compared in lower case with dots as dashes.
type gate struct {
	protocol protocol.Name
	patterns []string
	gates    protocol.Gates
}

// gateRows is what is known of models. The first row that matches counts, so
// exceptions stand before the rule.
func gateRows() []gate {
	modern := protocol.Gates{NoSampling: true, Adaptive: true, MidSystem: true, MaxOutput: 64000}
	unforced := modern
	unforced.NoForcedTool = true
	return []gate{
		{protocol.Anthropic, []string{"*opus-5-5*", "*sonnet-5-5*", "*fable-5-*", "*mythos-5-*"}, unforced},
		{protocol.Anthropic, []string{"*opus-4-8*", "*opus-5*", "*sonnet-5*", "*haiku-5*", "*fable*", "*mythos*"}, modern},
		{protocol.Anthropic, []string{"*opus-4-7*"}, protocol.Gates{NoSampling: true, Adaptive: true, MaxOutput: 64000}},
		{protocol.Anthropic, []string{"*opus-4-6*", "*sonnet-4-6*"}, protocol.Gates{Adaptive: true, MaxOutput: 64000}},
		{protocol.Anthropic, []string{"*claude-3-5*", "*claude-3-*"}, protocol.Gates{Budget: true, MaxOutput: 8192}},
		{protocol.Anthropic, []string{"*claude*"}, protocol.Gates{Budget: true, MaxOutput: 32000}},

		{protocol.OpenAIChat, []string{"o1*", "o3*", "o4*", "gpt-5*", "gpt-6*", "*/o1*", "*/o3*", "*/o4*", "*/gpt-5*", "*/gpt-6*"},
			protocol.Gates{NoSampling: true, NoStop: true}},
		{protocol.OpenAIResponses, []string{"o1*", "o3*", "o4*", "gpt-5*", "gpt-6*"}, protocol.Gates{NoSampling: true}},
		{protocol.OpenAIChat, []string{"*deepseek*", "*kimi*"}, protocol.Gates{SystemOnly: true, ReasoningHistory: "reasoning_content"}},

		{protocol.Gemini, []string{"*gemini-2-5*"}, protocol.Gates{Budget: true}},
	}
}

// GatesFor is what a provider's model refuses or wants otherwise.
func GatesFor(p *Provider, model string) protocol.Gates {
	name := strings.ReplaceAll(strings.ToLower(model), ".", "-")
	for _, row := range gateRows() {
		if row.protocol != p.Protocol {
			continue
		}
		for _, pattern := range row.patterns {
			if ok, err := path.Match(pattern, name); err == nil && ok {
				return row.gates
			}
		}
	}
	return protocol.Gates{}
}
