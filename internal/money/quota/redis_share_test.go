package quota

import (
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestShareGrows checks that a node uses 2 % of its share while Redis may only be slow, and all of it ten seconds after
// Redis was lost.
func TestShareGrows(t *testing.T) {
	for after, want := range map[time.Duration]usage.Money{0: 20, 2 * time.Second: 20, 6 * time.Second: 510, 10 * time.Second: 1000, time.Hour: 1000} {
		r := &redisServer{redisBackend: &redisBackend{clock: func() time.Time { return time.Unix(0, 0).Add(after) }}}
		r.lost.Store(true)
		if got := r.shareAllowed(&engine{}); got != want {
			t.Errorf("after %v %d thousandths, want %d", after, got, want)
		}
	}
}
