package cache

import (
	"net/http"
	"testing"
)

func TestControl(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  Control
	}{
		{nil, Normal},
		{[]string{"max-age=60"}, Normal},
		{[]string{"no-cache"}, Refresh},
		{[]string{"max-age=0"}, Refresh},
		{[]string{" No-Cache , x"}, Refresh},
		{[]string{"no-cache, no-store"}, Bypass},
		{[]string{"no-cache", "no-store"}, Bypass},
	} {
		if got := ControlOf(http.Header{"Cache-Control": c.lines}); got != c.want {
			t.Errorf("%q: got %v, want %v", c.lines, got, c.want)
		}
	}
}
