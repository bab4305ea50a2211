package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	slowReaders   = 9000
	normalStreams = 1000
	normalAtOnce  = 400      // so that one process has descriptors for all, 20,000
	perStream     = 64 << 10 // bytes of memory
	slowAdds      = time.Millisecond
	stalledCut    = 30 * time.Second
)

// runSlowClients plays r14: thousands of clients that read a byte a second beside normal
// ones, and a client that does not read at all.
func runSlowClients(ctx context.Context, r *rig) {
	if name := "r14/slow-readers"; r.Wants(name) {
		r.slowReaders(ctx, name)
	}
	if name := "r14/stalled-reader"; r.Wants(name) {
		r.stalledReader(ctx, name)
	}
}

func (r *rig) slowReaders(ctx context.Context, name string) {
	began := time.Now()
	c := &config{}
	slow := r.target(c, "slow", testrig.Chat, refill)
	r.target(c, "normal", testrig.Chat, testrig.Answer("good"))
	n := slowReaders
	if r.short {
		n /= 10
	}
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		var warm, alone, beside testrig.History[testrig.Sample]
		r.normalStreams(ctx, g, &warm)
		r.normalStreams(ctx, g, &alone)
		before := testrig.ProcessMemory(g.PID(), "VmRSS")
		reading, stop := context.WithCancel(ctx)
		defer stop()
		var readers sync.WaitGroup
		var started atomic.Int64
		for i := range n {
			readers.Go(func() { readSlowly(reading, g, &started) })
			if i%50 == 49 {
				testrig.Pause(ctx, 25*time.Millisecond)
			}
		}
		eventually(ctx, patience, func() bool { return started.Load() >= int64(n) && slow.Open.Load() >= int64(n) })
		r.Progress("r14: %d slow readers", started.Load())
		testrig.Pause(ctx, 3*time.Second)
		r.normalStreams(ctx, g, &beside)
		grown := testrig.ProcessMemory(g.PID(), "VmRSS") - before
		held := slow.Open.Load()
		stop()
		readers.Wait()
		measured, goals, problems := judgeSlow(alone.List(), beside.List(), grown, held)
		r.Figures(name, measured, began, cpu, goals, append(problems, testrig.Unless(held >= int64(n), "%d of %d slow streams were open", held, n))...)
	})
}

// normalStreams sends a thousand streams, some at a time, and as many to the upstream itself.
func (r *rig) normalStreams(ctx context.Context, g *gateway, to *testrig.History[testrig.Sample]) {
	direct := r.direct("normal")
	free := make(chan struct{}, normalAtOnce)
	testrig.Offer(ctx, 500, 2*normalStreams*time.Second/500, func(i int) {
		free <- struct{}{}
		defer func() { <-free }()
		if q := (testrig.Query{Model: "normal", Stream: true}); i%2 == 0 {
			to.Add(g.client.Measure(ctx, "gateway", q))
		} else {
			to.Add(direct.Measure(ctx, "direct", q))
		}
	})
}

func judgeSlow(alone, beside []testrig.Sample, grown float64, held int64) (measured string, goals, problems []string) {
	each := grown / float64(max(held, 1))
	overhead := func(all []testrig.Sample) (added, total time.Duration) {
		total = testrig.Quantile(testrig.Pick(all, inClass("gateway")), 0.99, first)
		return total - testrig.Quantile(testrig.Pick(all, inClass("direct")), 0.99, first), total
	}
	a, totalAlone := overhead(alone)
	b, totalBeside := overhead(beside)
	measured = fmt.Sprintf("%d slow readers, %.1f KiB each; p99 of the first byte of %d normal streams %s alone, of which the gateway adds %s, and %s beside them, of which it adds %s",
		held, each/1024, len(beside)/2, testrig.Millis(totalAlone), testrig.Millis(a), testrig.Millis(totalBeside), testrig.Millis(b))
	goals = []string{testrig.When(b-a > slowAdds, "the gateway adds %s more to the first byte of normal clients, want at most %s", testrig.Millis(b-a), slowAdds)}
	return measured, goals, []string{
		testrig.When(each > perStream, "%.1f KiB for each stream, want at most %d", each/1024, perStream>>10),
		example(testrig.Pick(beside, bad), "normal requests failed"),
	}
}

// readSlowly reads a byte a second until the context ends.
func readSlowly(ctx context.Context, g *gateway, started *atomic.Int64) {
	c, err := dial(ctx, g, "slow", true)
	if err != nil {
		return
	}
	defer c.Close()
	one := make([]byte, 1)
	if _, err := io.ReadFull(c, one); err != nil {
		return
	}
	started.Add(1)
	for err == nil && ctx.Err() == nil {
		testrig.Pause(ctx, time.Second)
		_, err = c.Read(one)
	}
}

// refill sends more than a slow reader can take, then a little now and then.
func refill(c *testrig.Call) bool {
	s := c.Reply("good").Stream()
	c.StartStream()
	c.Chunks(s.Head...)
	block := testrig.Chunk(strings.Join(s.Words, ""))
	for range 20 { // 64 KB
		if !c.Write(block) {
			return c.Hold()
		}
	}
	for c.Wait(10 * time.Second) {
		c.Write(block)
	}
	return false
}

// stalledReader checks that the gateway ends the stream of a client that does not read.
func (r *rig) stalledReader(ctx context.Context, name string) {
	began := time.Now()
	c := &config{}
	t := r.target(c, "flood", testrig.Chat, flood)
	r.with(ctx, c, func(g *gateway) {
		conn := testrig.Must(dial(ctx, g, "flood", true))
		defer conn.Close()
		sent := time.Now()
		ended := eventually(ctx, stalledCut+patience, func() bool { return t.Disconnects.Load() == 1 })
		r.Check(name, fmt.Sprintf("ended after %v", time.Since(sent).Round(100*time.Millisecond)), began, testrig.Unless(ended, "the stream of a client that does not read is still open"))
	})
}
