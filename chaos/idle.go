package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

const (
	fewFiles     = 400 // descriptors of the process
	idleClients  = 395
	freshClients = 20
	freshTime    = time.Second
	idleKey      = "key-of-a-client-that-works-0"
)

// runIdleConnections fills the descriptors of the gateway with connections of clients
// without a key, which stay open after a refused request. New clients must be served.
func runIdleConnections(ctx context.Context, r *rig) {
	for _, addresses := range []int{1, 100} {
		name := fmt.Sprintf("idle/%d-addresses", addresses)
		if addresses == 1 {
			name = "idle/one-address"
		}
		if !r.Wants(name) {
			continue
		}
		began := time.Now()
		c := &config{top: []string{"keys: [" + idleKey + "]"}, before: fmt.Sprintf("ulimit -n %d", fewFiles)}
		r.target(c, "m", testrig.Chat, testrig.Answer("good"))
		r.with(ctx, c, func(g *gateway) {
			refused := 0
			for i := range idleClients {
				conn := testrig.Must(dialFrom(ctx, &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}, g, "m", false))
				defer conn.Close()
				testrig.NoError(conn.SetReadDeadline(time.Now().Add(10 * time.Second)))
				status := make([]byte, len("HTTP/1.1 401"))
				if _, err := conn.Read(status); err == nil && string(status) == "HTTP/1.1 401" {
					refused++
				}
			}
			files := testrig.OpenFiles(g.PID())
			var load []testrig.Sample
			for range freshClients {
				ctx, cancel := context.WithTimeout(ctx, 10*freshTime)
				fresh := testrig.NewClient(g.URL)
				load = append(load, fresh.Measure(ctx, "", testrig.Query{Model: "m"}, "Authorization", "Bearer "+idleKey))
				cancel()
				fresh.Close()
			}
			slowest := testrig.Quantile(load, 1, took)
			r.Check(name, fmt.Sprintf("%d idle clients, %d of %d descriptors in use; %d new clients are served within %s", refused, files, fewFiles, len(load), testrig.Millis(slowest)), began,
				testrig.Unless(refused == idleClients, "%d of %d clients without a key got status %d", refused, idleClients, http.StatusUnauthorized),
				testrig.When(slowest > freshTime, "a new client waited %v, want at most %v", slowest, freshTime),
				example(testrig.Pick(load, bad), "new clients were not served"))
		})
	}
}
