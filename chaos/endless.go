package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The limits that an endless upstream runs into.
const (
	lineLimit   = 8 << 20
	answerLimit = 8 << 20
	cutAfter    = 5 * time.Second // total
	besides     = 24 << 20        // what a collector of garbage keeps for itself
	abreastFor  = 2               // streams at a time
)

// endless is an upstream that does not stop.
type endless struct {
	name   string
	play   script
	stream bool
	cut    bool // words were seen, so that it ends in an error event
}

// times is how many times its limit a request may hold: an event twice, and a body
// eight times, since it is copied while it grows and read where it is.
func (e endless) times() int {
	if e.stream {
		return 2
	}
	return 8
}

func endlessOnes() []endless {
	return []endless{
		{name: "stream", play: playForever, stream: true, cut: true},
		{name: "one-line", play: playOneLine, stream: true},
		{name: "one-line-late", play: playOneLineLate, stream: true, cut: true},
		{name: "body", play: playEndlessBody},
		{name: "headers", play: playEndlessHeaders, stream: true},
		{name: "informational", play: playEndlessContinue, stream: true},
		{name: "byte-by-byte", play: playDribble, stream: true},
		{name: "headers-then-nothing", play: playHeadersThenSilence, stream: true},
	}
}

// runEndless is R13. Each has a gateway of its own, so that the memory is its own,
// and an upstream.
func runEndless(ctx context.Context, b *bench) error {
	type one struct {
		endless
		pair
	}
	var all []one
	for _, p := range []pair{{chat, chat}, {messages, chat}} {
		for _, e := range endlessOnes() {
			if b.wants(endlessName(p, e)) {
				all = append(all, one{e, p})
			}
		}
	}
	each(4, all, func(o one) {
		err := b.alone(ctx, func(ctx context.Context, own *bench) error { return own.endless(ctx, o.pair, o.endless) })
		if err != nil {
			b.failed(endlessName(o.pair, o.endless), err.Error(), 0)
		}
	})
	return nil
}

func endlessName(p pair, e endless) string { return "r13/" + e.name + "/" + p.String() }

func (b *bench) endless(ctx context.Context, p pair, e endless) error {
	began := time.Now()
	s := &setup{top: []string{fmt.Sprintf("timeouts: { connect: 2s, first_byte: 3s, idle: 3s, total: %s }", cutAfter),
		fmt.Sprintf("limits: { event: %d, answer: %d }", lineLimit, answerLimit)}}
	t := b.up.add("endless", e.play)
	b.up.add("warm", answerAs("good"))
	s.model("m", []string{s.provider("endless", p.upstream, b.up.url("endless", p.upstream))})
	s.model("warm", []string{s.provider("warm", p.upstream, b.up.url("warm", p.upstream))})
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	for range 20 {
		g.ask(ctx, p.client, "warm", e.stream)
	}
	before, err := g.vitals(ctx)
	if err != nil {
		return err
	}
	answers := make([]string, abreastFor)
	indexes := []int{0, 1}
	each(abreastFor, indexes, func(i int) { answers[i] = b.endlessOnce(ctx, g, p, e) })
	grown := g.peak() - before.rss
	var wrong []string
	for _, a := range answers {
		if a != "" {
			wrong = append(wrong, a)
		}
	}
	if limit := float64(abreastFor*e.times()*lineLimit + besides); grown > limit {
		wrong = append(wrong, fmt.Sprintf("memory has grown by %.0f MB, want at most %.0f", grown/1e6, limit/1e6))
	}
	if !eventually(2*time.Second, func() bool { return t.open.Load() == 0 }) {
		wrong = append(wrong, "the upstream was not told to stop")
	}
	b.up.hangUp()
	g.client.CloseIdleConnections()
	var after vitals
	if !eventually(2*time.Second, func() bool {
		after, err = g.vitals(ctx)
		return err == nil && after.goroutines <= before.goroutines+2
	}) {
		wrong = append(wrong, fmt.Sprintf("%.0f goroutines, before it were %.0f", after.goroutines, before.goroutines))
	}
	b.check(endlessName(p, e), fmt.Sprintf("memory +%.0f MB, upstream got rid of %.1f MB", grown/1e6, float64(t.sent.Load())/1e6), began, wrong...)
	_, err = g.stop()
	return err
}

// endlessOnce returns what is wrong with the answer. Its words are not kept: there
// may be a lot of them.
func (b *bench) endlessOnce(ctx context.Context, g *gateway, p pair, e endless) string {
	began := time.Now()
	resp, err := g.open(ctx, p.client, "m", e.stream)
	if err != nil {
		return fmt.Sprintf("no answer: %v", err)
	}
	defer resp.Body.Close()
	last, n, err := lastOf(resp.Body, 64<<10)
	took := time.Since(began)
	switch {
	case took > cutAfter+3*time.Second:
		return fmt.Sprintf("it was not cut; it took %v and %d bytes", took, n)
	case err != nil:
		return fmt.Sprintf("the transfer broke off after %d bytes: %v", n, err)
	case e.cut && resp.StatusCode != http.StatusOK, !e.cut && resp.StatusCode < http.StatusInternalServerError:
		return fmt.Sprintf("status %d: %s", resp.StatusCode, clip(string(last), 300))
	}
	h := heard{status: resp.StatusCode, header: resp.Header, body: last}
	if e.cut {
		if i := strings.Index(string(last), "\n\n"); n > int64(len(last)) && i >= 0 {
			h.body = last[i+2:] // from the beginning of an event on
		}
	}
	v := judge(p.client, h, e.stream)
	if v.fault == "" || v.finished {
		return fmt.Sprintf("status %d, want an error, got %s: %s", h.status, v, clip(string(last[max(0, len(last)-400):]), 400))
	}
	return ""
}

// lastOf reads to the end and keeps the last bytes.
func lastOf(r io.Reader, keep int) (last []byte, n int64, err error) {
	buf := make([]byte, 32<<10)
	for {
		k, err := r.Read(buf)
		n += int64(k)
		last = append(last, buf[:k]...)
		if over := len(last) - keep; over > 0 {
			last = append(last[:0], last[over:]...)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return last, n, err
		}
	}
}

// pour writes the same bytes until the peer has had enough, a gigabyte at most.
func (c *call) pour(block string) bool {
	for n := 0; n < 1<<30; n += len(block) {
		if !c.write(block) {
			return false
		}
		select {
		case <-c.gone:
			return false
		default:
		}
	}
	return c.hold()
}

// playForever sends some hundred events a second: it is endless, not fast.
func playForever(c *call) bool {
	s := c.good("bad").stream()
	c.head(200, eventMedia, -1)
	c.chunks(s.head...)
	for range 6000 {
		c.chunks(s.words[1:5]...)
		if !c.wait(10 * time.Millisecond) {
			return false
		}
	}
	return false
}

func playOneLine(c *call) bool {
	c.head(200, eventMedia, -1)
	c.chunks(`data: {"id":"`)
	return c.pour(chunked(strings.Repeat("a", 64<<10)))
}

func playOneLineLate(c *call) bool {
	s := c.good("bad").stream()
	c.head(200, eventMedia, -1)
	c.chunks(append(s.head, s.words[:4]...)...)
	c.chunks(`data: {"id":"`)
	return c.pour(chunked(strings.Repeat("a", 64<<10)))
}

func playEndlessBody(c *call) bool {
	c.head(200, jsonMedia, -1)
	c.chunks(`{"id":"`)
	return c.pour(chunked(strings.Repeat("a", 64<<10)))
}

func playEndlessHeaders(c *call) bool {
	c.write("HTTP/1.1 200 OK\r\n")
	return c.pour(strings.Repeat("X-Chaos: "+strings.Repeat("a", 1000)+"\r\n", 60))
}

func playEndlessContinue(c *call) bool {
	return c.pour(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 100))
}

// playDribble is never silent for long and never says a word.
func playDribble(c *call) bool {
	c.head(200, eventMedia, -1)
	for range 600 {
		c.chunks(":")
		if !c.wait(100 * time.Millisecond) {
			return false
		}
	}
	return false
}
