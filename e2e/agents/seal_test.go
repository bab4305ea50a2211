package agents

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// checkSeals holds that what the vendor has sealed its reasoning with comes back to it
// with the results of each turn: its models think on from there, or refuse to.
func checkSeals(t *testing.T, job *rig.Dialect, m *model, got []*rig.Received) {
	t.Helper()
	for i, g := range got {
		d := dialectAt(g.Path())
		if d.Name != job.Name {
			continue // beside the job
		}
		f := d.Asked(g)
		past, _ := m.reply(f)
		if want := strings.Repeat(d.Seal(), max(past, 0)); f.Seal != want {
			t.Errorf("request %d brings the seals %q back, want %q", i, f.Seal, want)
		}
	}
}
