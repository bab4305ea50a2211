package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// life is a kind of stream: what it asks for, and how many timed events it gets.
type life struct {
	Body   []byte `json:"body"`
	Events int    `json:"events"`
}

// openStreams is the state of a job that keeps streams open.
type openStreams struct {
	asked, open atomic.Int64
	mu          sync.Mutex
	late        []time.Duration // of the events since the last result
	all         []time.Duration
}

// streams keeps streams open until the time is over: one that ends is followed by another. It tells every few seconds how late events came, and ends when all streams have.
func (l *loader) streams(ctx context.Context) error {
	if err := l.await(); err != nil {
		return err
	}
	s := &openStreams{}
	began := time.Now()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64) // at most so many begin at once
	for i := range l.Open {
		wg.Go(func() {
			for n := i; ; n += l.Open {
				if err := l.oneStream(ctx, s, i, n, slots); err != nil {
					l.tally.fail(err)
				}
				if time.Since(began).Seconds() > 0.99*l.Seconds {
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	every := time.NewTicker(5 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if err := l.tell(s, began, false); err != nil {
				return err
			}
		case <-ended:
			return l.tell(s, began, true)
		}
	}
}

func (l *loader) lifeOf(i int) life { return l.Lives[i%len(l.Lives)] }

// tell writes a result: of the last seconds, or of all events.
func (l *loader) tell(s *openStreams, began time.Time, done bool) error {
	s.mu.Lock()
	s.all = append(s.all, s.late...)
	late := slices.Clone(s.late)
	s.late = s.late[:0]
	if done {
		late = s.all
	}
	s.mu.Unlock()
	r := result{Asked: int(s.asked.Load()), Open: int(s.open.Load()), Events: len(late), Seconds: time.Since(began).Seconds(), Done: done}
	r.P50, r.P99 = percentiles(late)
	l.tally.add(&r)
	return l.out.Encode(r)
}

// oneStream opens the stream of a slot and reads it to its end. A stream without one of its events, or without its last
// line, has failed.
func (l *loader) oneStream(ctx context.Context, s *openStreams, slot, n int, slots chan struct{}) error {
	kind := l.lifeOf(slot)
	own := l.job
	own.Body = kind.Body
	if len(l.Keys) > 0 {
		own.Key = l.Keys[n%len(l.Keys)]
	}
	c := l.connOf(&own, slot)
	defer c.close()
	slots <- struct{}{}
	s.asked.Add(1)
	resp, err := c.open(ctx, n)
	<-slots
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.open.Add(1)
	defer s.open.Add(-1)
	got, ended, err := s.read(resp.Body, l.End)
	if err != nil || !ended || got != kind.Events {
		return fmt.Errorf("a stream ended after %d of %d events, its last line seen: %v: %w", got, kind.Events, ended, err)
	}
	return nil
}

// read reads a stream to its end and notes how late its events are.
func (s *openStreams) read(body io.Reader, end string) (events int, ended bool, err error) {
	lines := bufio.NewReaderSize(body, 1024)
	for {
		line, err := lines.ReadSlice('\n')
		if at, ok := stampOf(line); ok {
			events++
			late := time.Since(at)
			s.mu.Lock()
			s.late = append(s.late, late)
			s.mu.Unlock()
		}
		ended = ended || bytes.HasPrefix(line, []byte(end))
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return events, ended, nil
		default:
			return events, ended, err
		}
	}
}
