package main

import (
	"bufio"
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pool opens the connections and warms them and the other side up.
func (l *loader) pool(ctx context.Context) []*conn {
	pool := make([]*conn, l.Conns)
	for i := range pool {
		pool[i] = newConn(&l.job)
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

// each runs f for all connections at once.
func (l *loader) each(pool []*conn, f func(c *conn, i int)) {
	var wg sync.WaitGroup
	for i, c := range pool {
		wg.Go(func() { f(c, i) })
	}
	wg.Wait()
}

// closed has each connection ask as soon as it has its answer: for CPU time.
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

// atRate asks at fixed times, whether or not answers have come: for latency. A request
// that finds no free connection is late, and its latency counts from when it was due.
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

// percentiles are the 50th and the 99th in milliseconds. It sorts what it is given.
func percentiles(d []time.Duration) (p50, p99 float64) {
	slices.Sort(d)
	return ms(percentile(d, 0.50)), ms(percentile(d, 0.99))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// hold keeps streams open and counts the events that come: for the cost of paced
// events and for memory. At each stage it waits for a word before it counts.
func (l *loader) hold(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events atomic.Int64
	open := 0
	for _, stage := range l.Stages {
		l.open(ctx, stage-open, &events)
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
	return nil
}

// open opens n streams, a few at a time, and returns when each has had its first event
// with text. They are read until the process ends.
func (l *loader) open(ctx context.Context, n int, events *atomic.Int64) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range n {
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
	c := newConn(&l.job)
	defer c.close()
	if err := c.send(ctx, n); err != nil {
		return err
	}
	resp, err := c.receive()
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
