package sdks

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// report is what a client tells of a feature.
type report = map[string]any

// checkAborted checks that the upstream saw the client disconnect within a second.
func checkAborted(t *testing.T, got []*rig.Received) {
	t.Helper()
	if len(got) == 0 {
		t.Fatal("the upstream got no request to cancel")
	}
	select {
	case <-got[0].Ended:
		if !got[0].Aborted {
			t.Error("the upstream's answer ended, but not because the client disconnected")
		}
	case <-time.After(time.Second):
		t.Error("the upstream still had its connection 1 s after the client disconnected")
	}
}

// differences compares two JSON values. In want, "*" stands for any value that is not
// empty.
func differences(want, got any) string {
	present := func(v any) bool { return v != nil && v != "" }
	wildcard := func(a, b any) bool { return a == "*" && present(b) || b == "*" && present(a) } // cmp wants it symmetric
	return cmp.Diff(want, got, cmp.FilterValues(wildcard, cmp.Ignore()))
}

func firstDifference(want, got []byte) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-60)
	around := func(b []byte) []byte { return b[min(from, len(b)):min(i+120, len(b))] }
	return fmt.Sprintf("at byte %d (%d bytes sent, %d received)\n  sent:     …%s\n  received: …%s", i, len(want), len(got), around(want), around(got))
}
