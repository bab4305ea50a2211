package main

import (
	"bufio"
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// pool opens and warms up the connections.
func (l *loader) pool(ctx context.Context) []*conn {
	pool := make([]*conn, l.Conns)
	for i := range pool {
		pool[i] = l.conn(i)
	}
	l.each(pool, func(c *conn, i int) {
		for n := i; n < max(l.Warm, len(pool)); n += len(pool) {
			if _, err := c.exchange(ctx, n); err != nil {
				l.tally.fail(err)
				return
			}
		}
	})
	return pool
}

// each runs f for all connections in parallel.
func (l *loader) each(pool []*conn, f func(c *conn, i int)) {
	var wg sync.WaitGroup
	for i, c := range pool {
		wg.Go(func() { f(c, i) })
	}
	wg.Wait()
}

// closed sends the next request on a connection as soon as the last is answered. It
// measures CPU time.
func (l *loader) closed(ctx context.Context) error {
	pool := l.pool(ctx)
	if err := l.await(); err != nil {
		return err
	}
	var next, events atomic.Int64
	began := time.Now()
	l.each(pool, func(c *conn, _ int) {
		for {
			n := int(next.Add(1)) - 1
			if n >= l.Total {
				return
			}
			x, err := c.exchange(ctx, n)
			if err != nil {
				l.tally.fail(err)
			}
			events.Add(int64(x.events))
		}
	})
	r := result{Asked: l.Total, Seconds: time.Since(began).Seconds(), Events: int(events.Load())}
	l.tally.add(&r)
	return l.out.Encode(r)
}

// atRate sends requests at fixed times, without waiting for responses. It measures
// latency, which counts from the time that a request was due.
func (l *loader) atRate(ctx context.Context) error {
	pool := l.pool(ctx)
	if err := l.await(); err != nil {
		return err
	}
	total := int(l.Rate * l.Seconds)
	took := make([]time.Duration, total)
	first := make([]time.Duration, total)
	var next atomic.Int64
	began := time.Now()
	l.each(pool, func(c *conn, _ int) {
		for {
			n := int(next.Add(1)) - 1
			if n >= total {
				return
			}
			due := began.Add(time.Duration(float64(n) / l.Rate * float64(time.Second)))
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				due = time.Now() // a timer that fires late is our own fault
			}
			x, err := c.exchange(ctx, n)
			if err != nil {
				l.tally.fail(err)
			}
			took[n] = time.Since(due)
			if !x.first.IsZero() {
				first[n] = x.first.Sub(due)
			}
		}
	})
	r := result{Asked: total, Seconds: time.Since(began).Seconds()}
	r.P50, r.P99 = percentiles(took)
	r.First50, r.First99 = percentiles(first)
	l.tally.add(&r)
	return l.out.Encode(r)
}

// percentiles returns the 50th and 99th percentile in milliseconds.
func percentiles(all []time.Duration) (p50, p99 float64) {
	at := func(q float64) float64 {
		return float64(testrig.Quantile(all, q, func(d time.Duration) time.Duration { return d })) / float64(time.Millisecond)
	}
	return at(0.50), at(0.99)
}

// hold keeps streams open and counts their events. It measures the cost of paced events
// and memory. At each stage it waits for the line "go" before it counts.
func (l *loader) hold(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events atomic.Int64
	open := 0
	for _, stage := range l.Stages {
		l.open(ctx, open, stage, &events)
		open = stage
		if err := l.await(); err != nil {
			return err
		}
		began, before := time.Now(), events.Load()
		time.Sleep(time.Duration(l.Seconds * float64(time.Second)))
		r := result{Asked: open, Seconds: time.Since(began).Seconds(), Events: int(events.Load() - before)}
		l.tally.add(&r)
		if err := l.out.Encode(r); err != nil {
			return err
		}
	}
	_, _ = l.in.ReadString('\n') // until the input ends, so that the streams are open while memory is read
	return nil
}

// open opens the streams of some numbers, a few at a time, and returns when each has received its first
// event with text. They are read until the process ends.
func (l *loader) open(ctx context.Context, from, to int, events *atomic.Int64) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := from; i < to; i++ {
		slots <- struct{}{}
		wg.Add(1)
		var once sync.Once
		begun := func() { once.Do(func() { <-slots; wg.Done() }) }
		go func() {
			defer begun()
			if err := l.follow(ctx, i, begun, events); err != nil && ctx.Err() == nil {
				l.tally.fail(err)
			}
		}()
	}
	wg.Wait()
}

// follow reads one stream, which has no end.
func (l *loader) follow(ctx context.Context, n int, begun func(), events *atomic.Int64) error {
	c := l.conn(n)
	defer c.close()
	resp, err := c.open(ctx, n)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 1024)
	for {
		line, err := lines.ReadSlice('\n')
		if bytes.Contains(line, []byte(word)) {
			events.Add(1)
			begun()
		}
		if err != nil {
			return err
		}
	}
}
