package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	// The gateway pings a connection after 10 s without a frame, and closes it after 5 s
	// without a reply.
	noticed = 15 * time.Second
	// noticedGoal is when it has closed it on a quiet machine.
	noticedGoal = noticed + 3*time.Second
	// holeLimit bounds the check. A gateway without pings uses the connection for longer.
	holeLimit = time.Minute

	holeRate  = 2  // requests a second
	holeAfter = 10 // of them are sent after the connection was closed
	stayOpen  = "Stop in the middle of the answer."
)

// hole is one case: an upstream behind an HTTP/2 connection whose packets get lost.
type hole struct {
	client testrig.Dialect
	both   bool // there is a second, healthy target
	proxy  *testrig.Proxy

	name, model string
}

// runBlackHole turns HTTP/2 connections into black holes. They stay open, all packets on
// them are lost, and new connections work. All requests to a host share one connection,
// so each of them would fail for as long as the gateway uses it.
func runBlackHole(ctx context.Context, r *rig) {
	var holes []*hole
	for _, d := range testrig.Dialects() {
		for _, both := range []bool{true, false} {
			h := &hole{client: d, both: both, name: "h2/black-hole/" + string(d) + map[bool]string{true: "/both", false: "/only"}[both]}
			if r.Wants(h.name) && (!r.short || d == testrig.Chat) {
				holes = append(holes, h)
			}
		}
	}
	if len(holes) == 0 {
		return
	}
	var old atomic.Int64 // requests by an older protocol
	server := r.listenHTTP2(&old)
	defer server.Close()
	defer server.CloseClientConnections()
	dir := testrig.Must(os.MkdirTemp("", "isogloss-"))
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	c := &config{env: []string{"SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem")}}
	testrig.NoError(os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for i, h := range holes {
		h.proxy = testrig.Must(testrig.NewProxy(server.Listener.Addr().String(), nil))
		defer h.proxy.Close()
		h.place(r.up, c, i)
	}
	r.with(ctx, c, func(g *gateway) {
		testrig.Each(len(holes), len(holes), func(i int) {
			began, cpu := time.Now(), testrig.ReadCPUTime()
			measured, goals, problems := holes[i].run(ctx, g)
			r.Figures(holes[i].name, measured, began, cpu, goals, append(problems, testrig.When(old.Load() > 0, "%d requests did not use HTTP/2", old.Load()))...)
		})
	})
}

// listenHTTP2 starts an HTTP/2 server in front of the upstream. It counts requests by an
// older protocol.
func (r *rig) listenHTTP2(old *atomic.Int64) *httptest.Server {
	quiet := log.New(io.Discard, "", 0) // of cut connections
	to := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: quiet, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: r.up.Addr})
	}}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.ProtoMajor < 2 {
			old.Add(1)
		}
		to.ServeHTTP(w, q)
	}))
	s.EnableHTTP2, s.Config.ErrorLog = true, quiet
	s.StartTLS()
	return s
}

// place puts the case's targets behind the gateway.
func (h *hole) place(u *testrig.Upstream, c *config, n int) {
	h.model = fmt.Sprintf("hole%d", n)
	u.Handle(h.model, func(c *testrig.Call) bool {
		if bytes.Contains(c.Body, []byte(stayOpen)) {
			return stall(c)
		}
		return testrig.Answer("good")(c)
	})
	providers := []string{c.provider(h.model, h.client, "https://"+h.proxy.Addr+"/"+h.model+h.client.Base())}
	if h.both {
		second := fmt.Sprintf("second%d", n)
		u.Handle(second, testrig.Answer("good"))
		providers = append(providers, c.provider(second, h.client, u.URL(second, h.client)))
	}
	c.model(h.model, providers)
}

// held is one request during the black hole. Its times count from the beginning of it.
type held struct {
	sent, ended time.Duration
	status      int
	complete    bool
	outcome     string
}

// run loses the connection under an open stream and sends requests until some after the
// gateway has closed it. The end of the open stream tells when that is.
func (h *hole) run(ctx context.Context, g *gateway) (measured string, goals, problems []string) {
	if first := g.send(ctx, h.client, h.model, false); first.Status != http.StatusOK {
		return "", nil, []string{fmt.Sprintf("status %d before the black hole, error %v, %s", first.Status, first.Err, testrig.Clip(string(first.Body), 300))}
	}
	ctx, stop := context.WithTimeout(ctx, holeLimit)
	defer stop()
	// When the response's head has arrived, the request cannot go to the second target.
	open, err := g.client.Open(ctx, h.client, testrig.Query{Model: h.model, Stream: true, Prompt: stayOpen})
	if err != nil {
		return "", nil, []string{"no stream before the black hole: " + err.Error()}
	}
	defer open.Body.Close()
	h.proxy.Lose()
	began := time.Now()
	offering, enough := context.WithCancel(ctx)
	var cut held
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		body, err := io.ReadAll(io.LimitReader(open.Body, 1<<20))
		o := h.client.Read(testrig.Response{Status: open.StatusCode, Header: open.Header, Body: body, Err: err}, true)
		cut = held{ended: time.Since(began), complete: o.MayPassForComplete() || o.Error == "", outcome: o.String()}
	}()
	var load testrig.History[held]
	var after atomic.Int64
	testrig.Offer(offering, holeRate, 0, func(i int) {
		select {
		case <-closed:
			if after.Add(1) >= holeAfter {
				enough()
			}
		default:
		}
		sent := time.Since(began)
		resp := g.send(ctx, h.client, h.model, i%2 == 0)
		o := h.client.Read(resp, i%2 == 0)
		load.Add(held{sent: sent, ended: time.Since(began), status: resp.Status, complete: resp.Status == http.StatusOK && o.Complete() && o.Text == testrig.Text("good"), outcome: o.String()})
	})
	enough()
	<-closed
	measured, goals, problems = h.judge(load.List(), cut.ended)
	return fmt.Sprintf("%s; the open stream got an error event after %.1f s", measured, cut.ended.Seconds()), goals, append(problems,
		testrig.When(cut.complete, "the stream that was open got no error event: %s", cut.outcome))
}

// judge wants every request to be served if there is a second target. Without one, only
// requests may fail that were sent before the gateway closed the connection.
func (h *hole) judge(all []held, cut time.Duration) (measured string, goals, problems []string) {
	duration := func(r held) time.Duration { return r.ended - r.sent }
	failed := testrig.Pick(all, func(r held) bool { return !r.complete })
	closed := cut
	for _, r := range failed {
		closed = min(closed, r.ended)
	}
	for _, r := range failed {
		if h.both || r.status != http.StatusBadGateway && r.status != http.StatusFailedDependency || r.sent > closed { // Bedrock has no 502
			problems = append(problems, fmt.Sprintf("a request of second %.1f failed at %.1f with status %d: %s", r.sent.Seconds(), r.ended.Seconds(), r.status, r.outcome))
		}
	}
	// The connection is a black hole if requests that were sent on it ended with it.
	stuck := testrig.Pick(all, func(r held) bool { return r.sent < closed-noticed/2 && r.ended >= closed })
	after := testrig.Pick(all, func(r held) bool { return r.sent > cut })
	problems = append(problems,
		testrig.When(cut >= holeLimit, "the connection was used for more than %v", holeLimit),
		testrig.When(len(after) == 0, "no request was sent after the connection was closed"),
		testrig.When(len(stuck) == 0, "no request waited for the end of the connection: it was no black hole"))
	slowest, later := testrig.Quantile(all, 1, duration), testrig.Quantile(after, 1, duration)
	goals = []string{testrig.When(max(cut, slowest) > noticedGoal, "the connection was used for %.1f s, want at most %v", max(cut, slowest).Seconds(), noticedGoal)}
	measured = fmt.Sprintf("%d of %d requests failed; the slowest took %.1f s, those after the connection was closed up to %s", len(failed), len(all), slowest.Seconds(), testrig.Millis(later))
	return measured, goals, problems
}
