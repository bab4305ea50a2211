package engines

import (
	"context"
	"testing"
	"time"
)

// soon is how long the engine may go on for a client that has left.
const soon = time.Second

// holdCancel: when a client leaves, the engine has the slot free again within a second,
// by its own account. A stream is left after its first piece, a whole answer while the
// engine is at it; the engine is asked to stream then, for in a whole answer it looks
// only once in a second whether anybody is still there, and not even then if anybody
// else asks it something in that second, as this test does.
func holdCancel(t *testing.T, c *cell) {
	streamed, gathered := c.ask, c.ask
	streamed.stream = true
	gathered.model += live
	for name, q := range map[string]question{"streamed": streamed, "gathered": gathered} {
		t.Run(name, func(t *testing.T) { c.leave(t, q) })
	}
}

func (c *cell) leave(t *testing.T, q question) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	begun := make(chan struct{}, q.tokens)
	q.piece = func(string) { begun <- struct{}{} }
	gone := make(chan error, 1)
	go func() {
		_, err := c.client.ask(ctx, q)
		gone <- err
	}()
	if q.stream {
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

// waitBusy asks the engine until as many slots are at work.
func (s *stage) waitBusy(t *testing.T, want int, patience time.Duration) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for s.engine.Busy(t) != want {
		if time.Now().After(deadline) {
			t.Fatalf("the engine has %d slots at work after %s, want %d", s.engine.Busy(t), patience, want)
		}
		<-tick.C
	}
}
