package provider

import (
	"github.com/isogloss-gateway/isogloss/internal/codec/gates"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Build returns the gate of the settings.
func (g *GateSettings) Build() gates.Rule {
	switch {
	case g.Match == "":
		g.Wrong("match", "is required; write the models that are meant, such as \"claude-x*\"")
	case g.Protocol == "":
		g.Wrong("protocol", "is required; write the protocol that the models are called over, such as anthropic")
	case g.MaxOutput < 0:
		g.Wrong("max_output", "is negative; write a number of tokens such as 64000")
	case g.Adaptive && g.Budget:
		g.Wrong("budget", "excludes adaptive; keep one of them")
	}
	return gates.Rule{
		Protocol: g.Protocol,
		Patterns: []string{g.Match},
		Gates: protocol.Gates{
			MaxOutput: int64(g.MaxOutput), NoSampling: g.NoSampling, NoForcedTool: g.NoForcedTool, NoStop: g.NoStop,
			Adaptive: g.Adaptive, Budget: g.Budget, Efforts: g.Efforts, MidSystem: g.MidSystem, SystemOnly: g.SystemOnly,
			MaxTokensName: g.MaxTokensName, ReasoningHistory: g.ReasoningHistory,
		},
	}
}
