package usagelog

import (
	"os"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

// TestHostileEvents decodes events that no gateway writes. Each is an event, or counted as malformed.
func TestHostileEvents(t *testing.T) {
	honest, err := os.ReadFile("testdata/event.json")
	if err != nil {
		t.Fatal(err)
	}
	all := hostile.Answers(string(honest), "http://127.0.0.1")
	if len(all) < 300 {
		t.Errorf("%d events", len(all))
	}
	for _, a := range all {
		m := Message{Name: Name{Log: "gw-1/0001", Partition: 1, To: 1 << 62}, Body: []byte(a.Text)}
		list, newer, bad := m.Events()
		lines := strings.Count(strings.TrimSuffix(a.Text, "\n"), "\n") + 1
		if a.Text == "" {
			lines = 0
		}
		if len(list)+len(newer)+bad != lines {
			t.Errorf("%s: %d events, %d newer and %d malformed of %d lines", a.Name, len(list), len(newer), bad, lines)
		}
		_, _ = ParseName(a.Name)
	}
}
