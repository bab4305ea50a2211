package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// TestOutlive checks when a round trip ends whose client has disconnected.
func TestOutlive(t *testing.T) {
	const long = time.Hour
	for name, c := range map[string]struct {
		before, after func(trip *RoundTrip, stop context.CancelFunc)
		want          time.Duration
	}{
		"at once":         {want: 0},
		"later":           {before: func(trip *RoundTrip, _ context.CancelFunc) { trip.Outlive(time.Second) }, want: time.Second},
		"rejoined before": {before: func(trip *RoundTrip, _ context.CancelFunc) { trip.Outlive(time.Second); trip.Rejoin() }, want: 0},
		"rejoined after":  {before: func(trip *RoundTrip, _ context.CancelFunc) { trip.Outlive(time.Second) }, after: func(trip *RoundTrip, _ context.CancelFunc) { trip.Rejoin() }, want: 0},
		"server stops":    {before: func(trip *RoundTrip, _ context.CancelFunc) { trip.Outlive(time.Second) }, after: func(_ *RoundTrip, stop context.CancelFunc) { stop() }, want: 0},
		"shortened":       {before: func(trip *RoundTrip, _ context.CancelFunc) { trip.Outlive(time.Second); trip.Shorten(time.Millisecond) }, want: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, stop := context.WithCancel(t.Context())
				client, leave := context.WithCancel(ServerContext(base))
				trip := NewClient().RoundTrip(client, provider.Timeouts{FirstByte: long, Idle: long, Total: long}, 0)
				defer trip.Close()
				if c.before != nil {
					c.before(trip, stop)
				}
				left := time.Now()
				leave()
				if c.after != nil {
					synctest.Wait()
					c.after(trip, stop)
				}
				<-trip.Context().Done()
				if took := time.Since(left); took != c.want {
					t.Errorf("it ended after %v, want %v", took, c.want)
				}
				stop()
			})
		})
	}
}
