//go:build long

package agents

import (
	"slices"
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
	// Seals of Claude pass between Converse and Messages, so that a seal does not tell them apart.
	vendors := slices.DeleteFunc(rig.Dialects(), func(d *rig.Dialect) bool { return d.Name == "converse" })
	for _, one := range vendors {
		for _, other := range vendors {
			if one.Name != other.Name {
				all = append(all, []string{one.Name, other.Name, one.Name})
			}
		}
	}
	return all
}
