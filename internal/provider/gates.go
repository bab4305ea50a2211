package provider

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Gate is a row: the models of a protocol that one of the patterns matches, and
// what they refuse or want otherwise. In a pattern * stands for anything. Names
// are compared in lower case, with dots as dashes.
type Gate struct {
	Protocol protocol.Name
	Patterns []string
	Gates    protocol.Gates
}

// Gates is what is known of models. It does not change after it was built. A nil
// Gates knows what is built in.
type Gates struct{ rows []gateRow }

type gateRow struct {
	protocol protocol.Name
	patterns [][]string // each split at its stars
	gates    protocol.Gates
}

var builtIn = NewGates(nil)

// NewGates returns a table in which the given rows come before those that are
// built in. The first row that matches counts.
func NewGates(first []Gate) *Gates {
	g := &Gates{}
	for _, row := range append(first[:len(first):len(first)], builtInRows()...) {
		patterns := make([][]string, len(row.Patterns))
		for i, p := range row.Patterns {
			patterns[i] = strings.Split(plain(p), "*")
		}
		g.rows = append(g.rows, gateRow{row.Protocol, patterns, row.Gates})
	}
	return g
}

// builtInRows is what the vendors have said. Exceptions stand before the rule.
func builtInRows() []Gate {
	modern := protocol.Gates{NoSampling: true, Adaptive: true, MidSystem: true, MaxOutput: 64000}
	unforced := modern
	unforced.NoForcedTool = true
	return []Gate{
		{protocol.Anthropic, []string{"*opus-5-5*", "*sonnet-5-5*", "*fable-5-*", "*mythos-5-*"}, unforced},
		{protocol.Anthropic, []string{"*opus-4-8*", "*opus-5*", "*sonnet-5*", "*haiku-5*", "*fable*", "*mythos*"}, modern},
		{protocol.Anthropic, []string{"*opus-4-7*"}, protocol.Gates{NoSampling: true, Adaptive: true, MaxOutput: 64000}},
		{protocol.Anthropic, []string{"*opus-4-6*", "*sonnet-4-6*"}, protocol.Gates{Adaptive: true, MaxOutput: 64000}},
		{protocol.Anthropic, []string{"*claude-3-*"}, protocol.Gates{Budget: true, MaxOutput: 8192}},
		{protocol.Anthropic, []string{"*claude*"}, protocol.Gates{Budget: true, MaxOutput: 32000}},

		{protocol.OpenAIChat, []string{"o1*", "o3*", "o4*", "gpt-5*", "gpt-6*", "*/o1*", "*/o3*", "*/o4*", "*/gpt-5*", "*/gpt-6*"},
			protocol.Gates{NoSampling: true, NoStop: true}},
		{protocol.OpenAIResponses, []string{"o1*", "o3*", "o4*", "gpt-5*", "gpt-6*"}, protocol.Gates{NoSampling: true}},
		{protocol.OpenAIChat, []string{"*deepseek*", "*kimi*"}, protocol.Gates{SystemOnly: true, ReasoningHistory: "reasoning_content"}},

		{protocol.Gemini, []string{"*gemini-2-5*"}, protocol.Gates{Budget: true}},
	}
}

// For is what a protocol's model refuses or wants otherwise.
func (g *Gates) For(name protocol.Name, model string) protocol.Gates {
	if g == nil {
		g = builtIn
	}
	model = plain(model)
	for _, row := range g.rows {
		if row.protocol != name {
			continue
		}
		for _, pattern := range row.patterns {
			if matches(pattern, model) {
				return row.gates
			}
		}
	}
	return protocol.Gates{}
}

// matches reports whether a name consists of a pattern's parts in their order,
// with anything between them.
func matches(parts []string, name string) bool {
	if len(parts) == 1 {
		return name == parts[0]
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}

// plain is a name or a pattern as it is compared.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }

// GatesFor is what is built in for a provider's model.
func GatesFor(p *Provider, model string) protocol.Gates { return builtIn.For(p.Protocol, model) }

// KnowsCustomTools reports whether a provider takes tools with free text. OpenAI
// made them; other servers that speak its dialect refuse them.
func (p *Provider) KnowsCustomTools() bool {
	host := p.BaseURL.Hostname()
	return strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".openai.azure.com")
}
