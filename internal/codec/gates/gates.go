// Package gates has the rules about the parameters that certain models accept.
package gates

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Rule is a rule about the parameters that certain models of a protocol accept. In a
// pattern * matches any text. Names are compared in lower case, with dots as dashes.
type Rule struct {
	Protocol protocol.Name
	Patterns []string
	Gates    protocol.Gates
}

// Table is an immutable table of rules. A nil Table has the built-in rules.
type Table struct{ rows []row }

type row struct {
	protocol protocol.Name
	patterns [][]string // each split at its stars
	gates    protocol.Gates
}

var builtIn = New(nil)

// New returns a table with the given rules before the built-in ones. The first
// match applies.
func New(first []Rule) *Table {
	g := &Table{}
	for _, rule := range append(first[:len(first):len(first)], builtInRows()...) {
		patterns := make([][]string, len(rule.Patterns))
		for i, p := range rule.Patterns {
			patterns[i] = strings.Split(plain(p), "*")
		}
		g.rows = append(g.rows, row{rule.Protocol, patterns, rule.Gates})
	}
	return g
}

// builtInRows returns the vendors' documented rules. Exceptions precede general rules.
func builtInRows() []Rule {
	rows := vendorRows()
	for _, row := range vendorRows() {
		if row.Protocol == protocol.Anthropic { // the same models behind another protocol
			rows = append(rows, Rule{protocol.Converse, row.Patterns, row.Gates})
		}
	}
	return rows
}

func vendorRows() []Rule {
	modern := protocol.Gates{NoSampling: true, NoPrefill: true, Adaptive: true, MidSystem: true, MaxOutput: 64000}
	always := modern
	always.LeastReasoning = "low"
	unforced := always
	unforced.NoForcedTool = true
	between := unforced
	between.LeastReasoning = "between_tools"
	return []Rule{
		{protocol.Anthropic, []string{"*sonnet-5-5*"}, between},
		{protocol.Anthropic, []string{"*opus-5-5*", "*fable-5-*", "*mythos-5-*"}, unforced},
		{protocol.Anthropic, []string{"*fable*", "*mythos*"}, always},
		{protocol.Anthropic, []string{"*opus-4-8*", "*opus-5*", "*sonnet-5*", "*haiku-5*"}, modern},
		{protocol.Anthropic, []string{"*opus-4-7*"}, protocol.Gates{NoSampling: true, NoPrefill: true, Adaptive: true, MaxOutput: 64000}},
		{protocol.Anthropic, []string{"*opus-4-6*", "*sonnet-4-6*"}, protocol.Gates{OneSampling: true, NoPrefill: true, Adaptive: true, Efforts: []string{"low", "medium", "high", "max"}, MaxOutput: 64000}},
		{protocol.Anthropic, []string{"*opus-4-1*", "*opus-4-5*", "*sonnet-4-5*", "*haiku-4-5*"}, protocol.Gates{OneSampling: true, Budget: true, MaxOutput: 32000}},
		{protocol.Anthropic, []string{"*claude-3-*"}, protocol.Gates{Budget: true, MaxOutput: 8192}},
		{protocol.Anthropic, []string{"*claude*"}, protocol.Gates{Budget: true, MaxOutput: 32000}},

		{protocol.OpenAIChat, []string{"o1*", "o3*", "o4*", "gpt-5*", "gpt-6*", "*/o1*", "*/o3*", "*/o4*", "*/gpt-5*", "*/gpt-6*"},
			protocol.Gates{NoSampling: true, NoStop: true}},
		{protocol.OpenAIResponses, []string{"o1*", "o3*", "o4*", "gpt-5*", "gpt-6*"}, protocol.Gates{NoSampling: true}},
		{protocol.OpenAIChat, []string{"*gemini*"}, protocol.Gates{Carrier: true}},
		{protocol.OpenAIChat, []string{"*deepseek*", "*kimi*"}, protocol.Gates{SystemOnly: true, ReasoningHistory: "reasoning_content"}},

		{protocol.Gemini, []string{"*gemini-3-pro-preview*"}, protocol.Gates{Efforts: []string{"low", "high"}}},
		{protocol.Gemini, []string{"*gemini-2-5*"}, protocol.Gates{Budget: true}},
	}
}

// For returns the rule for a model of a protocol.
func (g *Table) For(name protocol.Name, model string) protocol.Gates {
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

// matches reports whether a name contains a pattern's parts in order, with anything
// between them.
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

// plain normalises a name or a pattern for comparison.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }
