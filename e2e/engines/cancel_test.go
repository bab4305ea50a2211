package engines

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// soon is how long the engine may go on for a client that has left.
const soon = time.Second

// checkCancel: when a client leaves, the engine has the slot free again within a second,
// by its own account. A stream is left after its first piece, a whole answer while the
// engine is at it; the engine is asked to stream then, for in a whole answer it looks
// only once in a second whether anybody is still there, and not even then if anybody
// else asks it something in that second, as this test does.
func checkCancel(t *testing.T, c *cell) {
	streamed, gathered := c.ask, c.ask
	streamed.Stream = true
	gathered.Model += live
	for name, q := range map[string]gosdk.Request{"streamed": streamed, "gathered": gathered} {
		t.Run(name, func(t *testing.T) { c.leave(t, q) })
	}
}

func (c *cell) leave(t *testing.T, q gosdk.Request) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	begun := make(chan struct{}, q.MaxTokens)
	q.Piece = func(string) bool { begun <- struct{}{}; return false }
	gone := make(chan error, 1)
	go func() {
		_, err := c.client.ask(ctx, q)
		gone <- err
	}()
	if q.Stream {
		<-begun
	} else {
		c.waitBusy(t, 1, 10*time.Second)
	}
	leave()
	left := time.Now()
	if err := <-gone; err == nil {
		t.Error("the answer came to its end, so nobody left")
	}
	c.waitBusy(t, 0, soon-time.Since(left))
}

// waitBusy waits until this many slots of the engine are busy.
func (s *stage) waitBusy(t *testing.T, want int, within time.Duration) {
	t.Helper()
	if err := testrig.Until(t.Context(), within, fmt.Sprintf("the engine does not have %d busy slots", want), func() bool { return s.engine.Busy(t) == want }); err != nil {
		t.Fatal(err)
	}
}
