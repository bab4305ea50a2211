package testrig

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Turns measures time by the requests that a gateway has answered, one after the other and
// each after a pause. On a quiet machine n turns take n pauses and little more. On a busy
// machine they take longer, like everything else that the gateway does, so that a promise
// which is counted in turns does not depend on the load.
type Turns struct {
	gateway *Gateway
	client  *http.Client
}

const (
	// turnPause is the pause before each request.
	turnPause = 10 * time.Millisecond
	// stuckTurns bounds Turns.Within if the gateway does not answer.
	stuckTurns = 3 * time.Minute
)

// NewTurns opens a connection to the gateway, which turns use until Close.
func NewTurns(ctx context.Context, g *Gateway) *Turns {
	t := &Turns{gateway: g, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}}
	t.take(ctx)
	return t
}

// Close closes the connection.
func (t *Turns) Close() { t.client.CloseIdleConnections() }

// take makes the gateway answer one request. The answer does not matter.
func (t *Turns) take(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.gateway.URL+"/live", nil)
	if err != nil {
		return
	}
	if resp, err := t.client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is kept
		_ = resp.Body.Close()                 // it was read
	}
}

// Within waits for a condition for as many turns as take this time on a quiet machine. It
// returns how long it waited, and whether the condition was met.
func (t *Turns) Within(ctx context.Context, quiet time.Duration, met func() bool) (time.Duration, bool) {
	began := time.Now()
	turning, stop := context.WithTimeout(ctx, quiet+stuckTurns)
	defer stop()
	go func() {
		defer stop()
		for range quiet / turnPause {
			Pause(turning, turnPause)
			t.take(turning)
			if turning.Err() != nil {
				return
			}
		}
	}()
	err := Until(turning, quiet+stuckTurns, "", met)
	return time.Since(began), err == nil || met()
}

// Within waits for a condition for as many turns of the gateway as take this time on a quiet
// machine. It returns how long it waited, and whether the condition was met.
func (g *Gateway) Within(ctx context.Context, quiet time.Duration, met func() bool) (time.Duration, bool) {
	t := NewTurns(ctx, g)
	defer t.Close()
	return t.Within(ctx, quiet, met)
}
