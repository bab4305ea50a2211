package config

import (
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func (f *file) resolveGates(ps *Problems) []provider.Gate {
	var rows []provider.Gate
	for i := range f.Gates {
		rows = append(rows, f.Gates[i].resolve(ps))
	}
	return rows
}

func (g *gateFile) resolve(ps *Problems) provider.Gate {
	switch {
	case g.Match == "":
		ps.addKey(&g.at, "match", "is required; write the models that are meant, such as \"claude-x*\"")
	case g.Protocol == "":
		ps.addKey(&g.at, "protocol", "is required; write the protocol that the models are called over, such as anthropic")
	case g.MaxOutput < 0:
		ps.addKey(&g.at, "max_output", "is negative; write a number of tokens such as 64000")
	case g.Adaptive && g.Budget:
		ps.addKey(&g.at, "budget", "excludes adaptive; keep one of them")
	}
	return provider.Gate{
		Protocol: protocol.Name(g.Protocol),
		Patterns: []string{g.Match},
		Gates: protocol.Gates{
			MaxOutput: int64(g.MaxOutput), NoSampling: g.NoSampling, NoForcedTool: g.NoForcedTool, NoStop: g.NoStop,
			Adaptive: g.Adaptive, Budget: g.Budget, Efforts: g.Efforts, MidSystem: g.MidSystem, SystemOnly: g.SystemOnly,
			MaxTokensName: g.MaxTokensName, ReasoningHistory: g.ReasoningHistory,
		},
	}
}
