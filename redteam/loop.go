package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Most files that a gateway may have open when a request goes round in a circle.
const loopFiles = 200

// loopAttacks send requests that lead back to the gateway.
func loopAttacks() (all []attack) {
	for _, d := range dialects() {
		for _, ring := range []int{1, 2} {
			do := func(ctx context.Context, r *rig) *evidence { return r.loop(ctx, d, ring) }
			all = append(all, attack{name: fmt.Sprintf("loop/%s/%d", targetName(d), ring), do: do, unproven: "the weak gateway does not lead back to itself"})
		}
	}
	return all
}

// loop starts gateways that are each other's provider and sends a request. Each may refuse
// its configuration, or the request.
func (r *rig) loop(ctx context.Context, d testrig.Dialect, ring int) *evidence {
	gateways := make([]*testrig.Gateway, ring)
	for i := range gateways {
		gateways[i] = testrig.Must(testrig.NewGateway(r.bin, "", fmt.Sprintf("loop%d", i)))
		defer gateways[i].Close()
	}
	e := &evidence{sent: fmt.Sprintf("a request for a model whose provider, by %d gateways, is the gateway itself", ring)}
	for i, g := range gateways {
		next := gateways[(i+1)%ring]
		c := &config{top: []string{"timeouts: { first_byte: 10s, total: 10s }"}, providers: []string{provider("self", d, next.URL+d.Base())}, models: []string{"  m: { targets: [self/m] }"}}
		testrig.NoError(g.Configure(c.yaml()))
		if err := g.Start(ctx); err != nil {
			e.got = err.Error()
			e.problem(!strings.Contains(err.Error(), "itself"), "the gateway does not start: %v", err)
			return e
		}
	}
	q := testrig.Query{Model: "m", Prompt: "hi"}
	client := testrig.NewClient(gateways[0].URL)
	defer client.Close()
	done := make(chan testrig.Response, 1)
	began := time.Now()
	go func() { done <- client.Send(ctx, d, q) }()
	most := 0
	for {
		select {
		case resp := <-done:
			e.status, e.got, e.body = resp.Status, string(resp.Body), string(resp.Body)
			e.note = fmt.Sprintf("%d files, %v", most, time.Since(began))
			e.problem(most > loopFiles, "the gateways opened %d files for one request", most)
			e.problem(resp.Status < 400, "status %d", resp.Status)
			return e
		case <-time.After(5 * time.Millisecond):
			for _, g := range gateways {
				most = max(most, testrig.OpenFiles(g.PID()))
				if most > 10*loopFiles { // it is proven; do not exhaust the machine
					g.Kill()
				}
			}
		}
	}
}
