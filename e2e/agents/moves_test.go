//go:build long

package agents

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// TestMoves has conversations of all agents move from every vendor to every other and
// back, by failover and by the agents' own change of models.
func TestMoves(t *testing.T) {
	list := agents()
	resuming := claude() // it drops its thinking then
	resuming.name, resuming.dialogue, resuming.drops = "claude-code-resumed", nil, true
	for _, a := range append(list, resuming) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range allRoutes() {
				t.Run("failover/"+strings.Join(r, ","), func(t *testing.T) { failsOver(t, a, r) })
				t.Run("switch/"+strings.Join(r, ","), func(t *testing.T) { switches(t, a, r) })
			}
		})
	}
}

func allRoutes() [][]string {
	var all [][]string
	for _, one := range rig.Dialects() {
		for _, other := range rig.Dialects() {
			if one.Name != other.Name {
				all = append(all, []string{one.Name, other.Name, one.Name})
			}
		}
	}
	return all
}
