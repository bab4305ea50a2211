package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	fewFiles     = 400 // descriptors of the process
	idleClients  = 395
	freshClients = 20
	freshTime    = time.Second // of a new client, in turns; on a quiet machine the goal, too
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
		began, cpu := time.Now(), testrig.ReadCPUTime()
		c := &config{top: []string{"keys: [" + idleKey + "]"}, before: fmt.Sprintf("ulimit -n %d", fewFiles)}
		r.target(c, "m", testrig.Chat, testrig.Answer("good"))
		r.with(ctx, c, func(g *gateway) {
			turns := testrig.NewTurns(ctx, g.Gateway) // on a connection from before
			defer turns.Close()
			refused := 0
			for i := range idleClients {
				conn := testrig.Must(dialFrom(ctx, &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}, g, "m", false))
				defer conn.Close()
				testrig.NoError(conn.SetReadDeadline(time.Now().Add(patience)))
				status := make([]byte, len("HTTP/1.1 401"))
				if _, err := conn.Read(status); err == nil && string(status) == "HTTP/1.1 401" {
					refused++
				}
			}
			files := testrig.OpenFiles(g.PID())
			var load []testrig.Sample
			late := 0
			for range freshClients {
				one := make(chan testrig.Sample, 1)
				asking, cancel := context.WithCancel(ctx)
				go func() {
					fresh := testrig.NewClient(g.URL)
					defer fresh.Close()
					one <- fresh.Measure(asking, "", testrig.Query{Model: "m"}, "Authorization", "Bearer "+idleKey)
				}()
				if _, served := turns.Within(ctx, freshTime, func() bool { return len(one) > 0 }); !served {
					late++
				}
				cancel()
				load = append(load, <-one)
			}
			slowest := testrig.Quantile(load, 1, took)
			r.Figures(name, fmt.Sprintf("%d idle clients, %d of %d descriptors in use; %d new clients are served within %s", refused, files, fewFiles, len(load), testrig.Millis(slowest)), began, cpu,
				[]string{testrig.When(slowest > freshTime, "a new client waited %v, want at most %v", slowest, freshTime)},
				testrig.Unless(refused == idleClients, "%d of %d clients without a key got status %d", refused, idleClients, http.StatusUnauthorized),
				testrig.When(late > 0, "%d new clients were not served while the gateway answered %v's worth of requests of an older one", late, freshTime),
				example(testrig.Pick(load, bad), "new clients were not served"))
		})
	}
}
