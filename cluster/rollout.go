package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// haproxyConfig is a load balancer with health checks. A node that reports "draining" gets no
// request after two checks, half a second; shutdown.notice has to be longer. Streams that are
// open stay open: there is no "on-marked-down shutdown-sessions".
const haproxyConfig = `defaults
  mode http
  timeout connect 2s
  timeout client 5m
  timeout server 5m
  option redispatch
  retries 3
frontend clients
  bind ADDRESS
  stats enable
  stats uri /haproxy
  default_backend gateways
backend gateways
  balance leastconn
  option httpchk GET /ready
  default-server check inter 250ms fall 2 rise 2
`

const (
	rolloutNotice = 5 * time.Second // HAProxy needs a second at most, and more on a busy machine
	noticeGoal    = 2 * time.Second
	rolloutExtra  = time.Minute     // of shutdown.drain beyond the longest stream
	lastErrors    = 2 * time.Second // after the drain, as documented
	rolloutRate   = 20.0            // requests a second
	rolloutOpen   = 30              // streams at a time
)

// drained is the end of one process.
type drained struct {
	node           string
	signal         time.Time
	noticed, ended time.Duration // after the signal: HAProxy sends it no more requests, its process has ended
}

// runRollout replaces the nodes behind HAProxy one after the other by SIGTERM and a start.
func runRollout(ctx context.Context, s *stage) {
	began, cpu := time.Now(), testrig.ReadCPUTime()
	lasts := s.streams
	with := s.settings()
	drain := lasts + rolloutExtra
	with.more = fmt.Sprintf("shutdown: { notice: %v, drain: %v }", rolloutNotice, drain)
	s.restartWith(ctx, with)
	config := haproxyConfig
	for _, g := range s.nodes {
		config += fmt.Sprintf("  server %s %s\n", g.Name, testrig.Must(url.Parse(g.URL)).Host)
	}
	balancer := testrig.Must(storetest.RunHAProxy(filepath.Join(s.dir, "haproxy"), config))
	s.cleanups = append(s.cleanups, balancer.Close)
	for _, g := range s.nodes {
		s.seesNode(ctx, balancer, g, "UP")
	}
	k := s.newKey(ctx, "rollout", limits{requests: 10_000_000, budget: 100_000_000})
	s.useEverywhere(ctx, k, dear)

	var requests, streams testrig.History[exchange]
	offering, stop := context.WithCancel(ctx)
	defer stop()
	send := func(into *testrig.History[exchange], r request) {
		r.key, r.model, r.Tag = k, dear, tag("rollout")
		into.Add(s.sendTo(ctx, balancer.URL, r))
	}
	done := make(chan struct{}, 2)
	go func() {
		testrig.Offer(offering, rolloutRate, 0, func(i int) { send(&requests, request{translated: i%2 == 0, script: script{Say: 2}}) })
		done <- struct{}{}
	}()
	go func() {
		tokens := 100
		testrig.Offer(offering, rolloutOpen/lasts.Seconds(), 0, func(i int) {
			send(&streams, request{stream: true, translated: i%2 == 0, script: script{Say: tokens, Every: lasts / time.Duration(tokens)}})
		})
		done <- struct{}{}
	}()
	var ends []drained
	for _, g := range s.nodes {
		testrig.NoError(testrig.Until(ctx, lasts+waitLimit, "no streams open", func() bool { return s.up.Open.Load() >= rolloutOpen/2 }))
		ends = append(ends, s.replaceBehind(ctx, balancer, g, rolloutNotice+drain+lastErrors))
		s.Progress("rollout: %s was replaced after %v", g.Name, ends[len(ends)-1].ended.Round(time.Second))
	}
	stop()
	<-done
	<-done

	rows := s.settledFor(ctx, settleTime)
	open := openAt(streams.List(), rows, ends)
	wrong := bad(streams.List(), exchange.good)
	for i, g := range s.nodes {
		wrong = append(wrong, testrig.Unless(open[i] > 0, "no stream was open on %s when it got SIGTERM", g.Name))
	}
	s.Check("rollout/streams", fmt.Sprintf("%d streams of %v, none cut; %v of them were open on the nodes when these got SIGTERM", len(streams.List()), lasts, open), began, wrong...)
	s.Check("rollout/requests", fmt.Sprintf("%d other requests, none refused; p99 %v", len(requests.List()), testrig.Millis(p99(requests.List()))), began, bad(requests.List(), exchange.good)...)
	slowest := slices.MaxFunc(ends, func(a, b drained) int { return int(a.ended - b.ended) })
	noticed := slices.MaxFunc(ends, func(a, b drained) int { return int(a.noticed - b.noticed) }).noticed
	s.Figures("rollout/drain", fmt.Sprintf("HAProxy sent a node no more requests %v after SIGTERM at most, with a notice of %v; the last process ended after %v, with notice and drain of %v",
		noticed.Round(10*time.Millisecond), rolloutNotice, slowest.ended.Round(10*time.Millisecond), rolloutNotice+drain), began, cpu,
		[]string{goal("HAProxy", noticed, noticeGoal), goal("the last process", slowest.ended, rolloutNotice+lasts+5*time.Second)},
		testrig.Unless(noticed < rolloutNotice, "HAProxy needed %v", noticed),
		testrig.Unless(slowest.ended <= rolloutNotice+drain, "%s ended after %v", slowest.node, slowest.ended))
	s.Check("rollout/ledger", fmt.Sprintf("%d rows", len(rows)), began, s.compared(ctx, rows)...)
}

// replaceBehind stops a node with SIGTERM, waits for its end, starts it and waits until HAProxy uses it.
func (s *stage) replaceBehind(ctx context.Context, balancer *storetest.Server, g *testrig.Gateway, within time.Duration) drained {
	pid := g.PID()
	d := drained{node: g.Name, signal: time.Now()}
	testrig.NoError(g.Signal(syscall.SIGTERM))
	s.seesNode(ctx, balancer, g, "DOWN")
	d.noticed = time.Since(d.signal)
	testrig.NoError(testrig.Until(ctx, within+waitLimit, g.Name+" does not end", func() bool { return !testrig.ProcessAlive(pid) }))
	d.ended = time.Since(d.signal)
	testrig.NoError(g.Start(ctx))
	s.seesNode(ctx, balancer, g, "UP")
	return d
}

// seesNode waits until HAProxy has a node in a state.
func (s *stage) seesNode(ctx context.Context, balancer *storetest.Server, g *testrig.Gateway, state string) {
	testrig.NoError(testrig.Until(ctx, waitLimit, g.Name+" is not "+state+" in HAProxy", func() bool {
		for line := range strings.Lines(testrig.Page(ctx, balancer.URL+"/haproxy;csv")) {
			if fields := strings.Split(line, ","); len(fields) > 17 && fields[1] == g.Name {
				return strings.HasPrefix(fields[17], state)
			}
		}
		testrig.Pause(ctx, 10*time.Millisecond)
		return false
	}))
}

// openAt counts for each process the exchanges that it had open when it got its signal.
func openAt(all []exchange, rows []row, ends []drained) []int {
	node := map[string]string{}
	for _, r := range rows {
		node[r.id] = r.node
	}
	open := make([]int, len(ends))
	for i, d := range ends {
		open[i] = testrig.Count(all, func(e exchange) bool {
			return node[e.id] == d.node && e.at.Before(d.signal) && e.at.Add(e.took).After(d.signal)
		})
	}
	return open
}
