package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	slowEvents      = 130 // of a slow stream, one a second
	slowEventsShort = 65
	// longDrain is the setting of gateways that stop without open requests: a process that
	// waits for it does not end while the check waits.
	longDrain = "shutdown: { drain: 30m }"
	exitGoal  = 2 * time.Second // for such a stop; shutdown.notice is one second
)

// runLifecycle checks how the process ends when no request is open.
func runLifecycle(ctx context.Context, r *rig) {
	for _, idle := range []string{"unused", "idle-connections"} {
		name := "life/sigterm/" + idle
		if !r.Wants(name) {
			continue
		}
		began := time.Now()
		cpu := testrig.ReadCPUTime()
		c := &config{top: []string{longDrain}}
		r.target(c, "m", testrig.Chat, testrig.Answer("good"))
		g := testrig.Must(r.start(ctx, c))
		if idle == "idle-connections" {
			for range 8 {
				conn := testrig.Must(dial(ctx, g, "m", false))
				defer conn.Close()
				resp := testrig.Must(http.ReadResponse(bufio.NewReader(conn), nil))
				_, _ = io.Copy(io.Discard, resp.Body) // the connection is idle when it is read
				_ = resp.Body.Close()                 // likewise
			}
		}
		took, err := g.stop(ctx)
		r.Figures(name, took.Round(time.Millisecond).String(), began, cpu, []string{testrig.When(took >= exitGoal, "%v, want less than %v", took, exitGoal)},
			testrig.Unless(err == nil, "it waits for more than open requests, or ended with %v", err))
	}
}

// dial opens a connection with small buffers and sends a Chat request on it.
func dial(ctx context.Context, g *gateway, model string, stream bool) (net.Conn, error) {
	return dialFrom(ctx, nil, g, model, stream)
}

// dialFrom is like dial from a local address.
func dialFrom(ctx context.Context, from net.Addr, g *gateway, model string, stream bool) (net.Conn, error) {
	d := net.Dialer{LocalAddr: from}
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // the system may choose more
	}
	body := testrig.Chat.Body(testrig.Query{Model: model, Stream: stream, Prompt: "hi"})
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return c, err
}

// runSlowStreams opens one slow, healthy stream for each pair, with default timeouts.
func runSlowStreams(ctx context.Context, r *rig) {
	c := &config{}
	name := func(p pair) string { return "life/event-a-second/" + p.String() }
	model := func(p pair) string { return fmt.Sprintf("%s-%s", p.client, p.upstream) }
	all := testrig.Pick(pairs(r.short), func(p pair) bool { return r.Wants(name(p)) })
	events := slowEvents
	if r.short {
		events = slowEventsShort
	}
	for _, p := range all {
		r.target(c, model(p), p.upstream, oncePerSecond(events))
	}
	if len(all) == 0 {
		return
	}
	r.with(ctx, c, func(g *gateway) {
		testrig.Each(len(all), len(all), func(i int) {
			p, began := all[i], time.Now()
			resp := g.send(ctx, p.client, model(p), true)
			o := p.client.Read(resp, true)
			r.Check(name(p), fmt.Sprintf("%d events, %d s", events, int(time.Since(began).Seconds())), began,
				testrig.Unless(resp.Err == nil && o.Complete() && o.Text == testrig.Text("good"), "status %d, connection error %v, %s", resp.Status, resp.Err, o))
		})
	})
}

// oncePerSecond sends an event a second. Most of them are keep-alives, so that the text
// stays the known one.
func oncePerSecond(events int) testrig.Script {
	return func(c *testrig.Call) bool {
		s := c.Reply("good").Stream()
		c.StartStream()
		c.Chunks(s.Head...)
		gap := events / len(s.Words)
		words := s.Words
		for i := range events {
			if !c.Wait(time.Second) {
				return false
			}
			if i%gap == 0 && len(words) > 1 {
				c.Chunks(words[0])
				words = words[1:]
			} else {
				c.Chunks(c.Dialect.IdleEvent())
			}
		}
		return c.Chunks(append(words, s.Tail...)...) && c.End()
	}
}
