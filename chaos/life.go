package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	slowEvents = 130 // one a second
	quickExit  = time.Second
)

// runLife is about the process: how it ends with nothing to do.
func runLife(ctx context.Context, b *bench) error {
	for _, idle := range []string{"unused", "idle-connections"} {
		name := "life/sigterm/" + idle
		if !b.wants(name) {
			continue
		}
		began := time.Now()
		s := &setup{}
		b.up.add("life", answerAs("good"))
		s.model("m", []string{s.provider("p", chat, b.up.url("life", chat))})
		g, err := start(ctx, b.bin, s)
		if err != nil {
			return err
		}
		var open []net.Conn
		if idle == "idle-connections" {
			open = idleConnections(ctx, g, 8)
		}
		took, err := g.stop()
		for _, c := range open {
			_ = c.Close() // the gateway has done so
		}
		wrong := ""
		switch {
		case err != nil:
			wrong = fmt.Sprintf("it ended with %v", err)
		case took >= quickExit:
			wrong = fmt.Sprintf("it took %v, want less than %v", took, quickExit)
		}
		b.check(name, took.Round(time.Millisecond).String(), began, wrong)
	}
	return nil
}

// idleConnections asks once on each and keeps them open.
func idleConnections(ctx context.Context, g *gateway, n int) []net.Conn {
	var all []net.Conn
	var dialer net.Dialer
	body := chat.ask("m", false)
	for range n {
		c, err := dialer.DialContext(ctx, "tcp", g.url[len("http://"):])
		if err != nil {
			continue
		}
		all = append(all, c)
		_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body) // else the answer is missing
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // it is only to be read
			_ = resp.Body.Close()                 // likewise
		}
	}
	return all
}

// runSlowStreams opens one slow and healthy stream for each pair, on a gateway
// whose timeouts are the defaults.
func runSlowStreams(ctx context.Context, b *bench) error {
	s := &setup{}
	var pairs []pair
	for i, p := range allPairs(b.short) {
		if b.wants(slowName(p)) {
			pairs = append(pairs, p)
			tag := fmt.Sprintf("slow%d", i)
			b.up.add(tag, playOncePerSecond)
			s.model(fmt.Sprintf("%s-%s", p.client, p.upstream), []string{s.provider(tag, p.upstream, b.up.url(tag, p.upstream))})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	each(len(pairs), pairs, func(p pair) {
		began := time.Now()
		h := g.ask(ctx, p.client, fmt.Sprintf("%s-%s", p.client, p.upstream), true)
		v := judge(p.client, h, true)
		wrong := ""
		if h.broken != nil || !v.whole() || v.text != textOf("good") {
			wrong = fmt.Sprintf("status %d, transfer %v, %s", h.status, h.broken, v)
		}
		b.check(slowName(p), fmt.Sprintf("%d events, %d s", slowEvents, int(time.Since(began).Seconds())), began, wrong)
	})
	_, err = g.stop()
	return err
}

func slowName(p pair) string { return "life/event-a-second/" + p.String() }

// playOncePerSecond repeats no word, so that the text stays the known one: most
// seconds bring an event without words.
func playOncePerSecond(c *call) bool {
	s := c.good("good").stream()
	c.head(200, eventMedia, -1)
	c.chunks(s.head...)
	gap := slowEvents / len(s.words)
	words := s.words
	for i := range slowEvents {
		if !c.wait(time.Second) {
			return false
		}
		if i%gap == 0 && len(words) > 1 {
			c.chunks(words[0])
			words = words[1:]
		} else {
			c.chunks(c.d.idleEvent())
		}
	}
	c.chunks(append(words, s.tail...)...)
	return c.end()
}
