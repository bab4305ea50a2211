package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The limits that an endless upstream runs into.
const (
	sizeLimit    = 8 << 20         // of an event and of a response
	totalTimeout = 5 * time.Second // of an attempt
	heapReserve  = 24 << 20        // memory that the garbage collector keeps
	parallel     = 2               // streams at a time
)

// endless is an upstream that does not stop.
type endless struct {
	name   string
	script testrig.Script
	stream bool
	late   bool // words were sent, so that it ends in an error event
}

// factor is how many times its limit a request may hold: an event twice, and a body
// eight times, since it is copied while it grows.
func (e endless) factor() int {
	if e.stream {
		return 2
	}
	return 8
}

func endlessUpstreams() []endless {
	return []endless{
		{name: "stream", script: endlessStream, stream: true, late: true},
		{name: "one-line", script: endlessLine(0), stream: true},
		{name: "one-line-late", script: endlessLine(4), stream: true, late: true},
		{name: "body", script: endlessBody},
		{name: "headers", script: endlessHeaders, stream: true},
		{name: "informational", script: endlessInformational, stream: true},
		{name: "byte-by-byte", script: endlessComments, stream: true},
		{name: "headers-then-nothing", script: headersThenSilence, stream: true},
	}
}

// runEndless plays r13. Every check has its own gateway, so that the memory is its own.
func runEndless(ctx context.Context, r *rig) {
	type check struct {
		endless
		pair
		name string
	}
	var all []check
	for _, p := range []pair{{testrig.Chat, testrig.Chat}, {testrig.Messages, testrig.Chat}} {
		for _, e := range endlessUpstreams() {
			if name := "r13/" + e.name + "/" + p.String(); r.Wants(name) {
				all = append(all, check{e, p, name})
			}
		}
	}
	testrig.Each(len(all), 4, func(i int) {
		err := r.alone(ctx, func(ctx context.Context, own *rig) {
			own.endless(ctx, all[i].name, all[i].pair, all[i].endless)
		})
		if err != nil {
			r.Fail(all[i].name, err.Error(), 0)
		}
	})
}

func (r *rig) endless(ctx context.Context, name string, p pair, e endless) {
	began := time.Now()
	c := &config{top: []string{fmt.Sprintf("timeouts: { idle: 3s, total: %s }", totalTimeout), fmt.Sprintf("limits: { event: %d, answer: %[1]d }", sizeLimit)}}
	t := r.target(c, "m", p.upstream, e.script)
	r.target(c, "warm", p.upstream, testrig.Answer("good"))
	r.with(ctx, c, func(g *gateway) {
		for range 20 {
			g.send(ctx, p.client, "warm", e.stream)
		}
		before, routines := testrig.ProcessMemory(g.PID(), "VmRSS"), g.metric(ctx, "go_goroutines")
		problems := make([]string, parallel)
		testrig.Each(parallel, parallel, func(i int) { problems[i] = e.send(ctx, g, p.client) })
		grown := testrig.ProcessMemory(g.PID(), "VmHWM") - before
		limit := float64(parallel*e.factor()*sizeLimit + heapReserve)
		stopped := eventually(ctx, patience, func() bool { return t.Open.Load() == 0 })
		r.up.CloseConnections()
		g.client.Close()
		var left float64
		ended := eventually(ctx, patience, func() bool {
			left = g.metric(ctx, "go_goroutines")
			return left > 0 && left <= routines+2
		})
		r.Check(name, fmt.Sprintf("memory +%.0f MB, %.1f MB sent upstream", grown/1e6, float64(t.Sent.Load())/1e6), began, append(problems,
			testrig.When(grown > limit, "memory has grown by %.0f MB, want at most %.0f", grown/1e6, limit/1e6),
			testrig.Unless(stopped, "the connection to the upstream was not closed"),
			testrig.Unless(ended, "%.0f goroutines, %.0f before", left, routines))...)
	})
}

// metric returns one figure of the gateway's metrics.
func (g *gateway) metric(ctx context.Context, name string) float64 {
	return testrig.Number(g.Metrics(ctx), name+" ")
}

// send returns the problem of one response. It keeps only the end of the body.
func (e endless) send(ctx context.Context, g *gateway, d testrig.Dialect) string {
	ctx, cancel := context.WithTimeout(ctx, patience) // the upstream itself never ends
	defer cancel()
	began := time.Now()
	resp, err := g.client.Open(ctx, d, testrig.Query{Model: "m", Stream: e.stream})
	if err != nil {
		return fmt.Sprintf("no response: %v", err)
	}
	defer resp.Body.Close()
	last, n, err := readTail(resp.Body, 64<<10)
	took := time.Since(began)
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("it was not ended; it took %v and %d bytes", took, n)
	case err != nil:
		return fmt.Sprintf("the connection failed after %d bytes: %v", n, err)
	case e.late && resp.StatusCode != http.StatusOK, !e.late && resp.StatusCode < http.StatusInternalServerError:
		return fmt.Sprintf("status %d: %s", resp.StatusCode, testrig.Clip(string(last), 300))
	}
	if i := strings.Index(string(last), "\n\n"); e.late && n > int64(len(last)) && i >= 0 {
		last = last[i+2:] // from the beginning of an event on
	}
	o := d.Read(testrig.Response{Status: resp.StatusCode, Header: resp.Header, Body: last}, e.stream)
	return testrig.When(o.Error == "" || o.Finished, "status %d, want an error, got %s: %s", resp.StatusCode, o, testrig.Clip(string(last[max(0, len(last)-400):]), 400))
}

// readTail reads to the end and keeps the last bytes.
func readTail(r io.Reader, keep int) (last []byte, n int64, err error) {
	buf := make([]byte, 32<<10)
	for {
		k, err := r.Read(buf)
		n += int64(k)
		last = append(last, buf[:k]...)
		if more := len(last) - keep; more > 0 {
			last = append(last[:0], last[more:]...)
		}
		if errors.Is(err, io.EOF) {
			return last, n, nil
		}
		if err != nil {
			return last, n, err
		}
	}
}

// pour sends the same bytes until the gateway disconnects, a gigabyte at most.
func pour(c *testrig.Call, block string) bool {
	for n := 0; n < 1<<30; n += len(block) {
		if !c.Write(block) {
			return false
		}
	}
	return c.Hold()
}

// endlessStream sends some hundred events a second: it is endless, not fast.
func endlessStream(c *testrig.Call) bool {
	s := c.Reply("bad").Stream()
	c.StartStream()
	c.Chunks(s.Head...)
	for c.Chunks(s.Words[1:5]...) && c.Wait(10*time.Millisecond) {
	}
	return false
}

// endlessLine sends an event without end after some words.
func endlessLine(words int) testrig.Script {
	return func(c *testrig.Call) bool {
		c.StartStream()
		if words > 0 {
			s := c.Reply("bad").Stream()
			c.Chunks(append(s.Head, s.Words[:words]...)...)
		}
		c.Chunks(`data: {"id":"`)
		return pour(c, testrig.Chunk(strings.Repeat("a", 64<<10)))
	}
}

func endlessBody(c *testrig.Call) bool {
	c.Head(http.StatusOK, testrig.JSONMedia, -1)
	c.Chunks(`{"id":"`)
	return pour(c, testrig.Chunk(strings.Repeat("a", 64<<10)))
}

func endlessHeaders(c *testrig.Call) bool {
	c.Write("HTTP/1.1 200 OK\r\n")
	return pour(c, strings.Repeat("X-Chaos: "+strings.Repeat("a", 1000)+"\r\n", 60))
}

func endlessInformational(c *testrig.Call) bool {
	return pour(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 100))
}

// endlessComments is never silent for long and never sends a word.
func endlessComments(c *testrig.Call) bool {
	c.StartStream()
	for c.Chunks(":") && c.Wait(100*time.Millisecond) {
	}
	return false
}
