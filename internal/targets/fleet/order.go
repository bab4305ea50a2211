package fleet

import (
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

// Skipped is a target that is skipped or tried last.
type Skipped struct {
	Target string // provider/model
	Reason string // one of health's reasons
}

// Order returns the indexes of the targets in the order in which they are tried: the
// usable ones in the policy's order, then the ejected ones and those whose check fails.
// Targets that are cooling down or refuse the gateway's credential are excluded. The
// second result lists all targets that are not usable.
func Order(p balance.Policy, targets []*route.Target, s balance.Session) ([]int, []Skipped) {
	var buf [8]*health.Target
	pool := buf[:0]
	for _, t := range targets {
		pool = append(pool, t.Live)
	}
	var flags [8]bool
	usable := health.Usable(flags[:0], pool)

	var skipped []Skipped
	choices := make([]balance.Choice, 0, len(targets))
	index := make([]int, 0, len(targets)) // of each choice, then of the last resorts
	var last []int
	for i, t := range targets {
		if usable[i] {
			choices = append(choices, balance.Choice{ID: t.String(), Weight: t.Weight, Load: t.Live, Zone: t.Zone, Saturated: t.Engine.Saturated()})
			index = append(index, i)
			continue
		}
		reason := t.Live.State().Reason
		skipped = append(skipped, Skipped{t.String(), reason})
		if reason == health.Ejected || reason == health.CheckFailed {
			last = append(last, i)
		}
	}
	order := balance.Order(p, choices, s)
	for i, choice := range order {
		order[i] = index[choice]
	}
	return append(order, last...), skipped
}
