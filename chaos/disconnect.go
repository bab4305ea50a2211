package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	// noticeGoal is how soon an upstream notices on a quiet machine that a client disconnected.
	noticeGoal = 100 * time.Millisecond
	// noticeTurns is how soon it has to notice, in turns of the gateway.
	noticeTurns = 250 * time.Millisecond
)

// disconnect is a phase of a request in which its client disconnects. No phase is after the finish
// reason: there a gateway with a ledger reads on for the usage.
type disconnect struct {
	name   string
	script testrig.Script // of the target that the client waits for
	before testrig.Script // of a target that fails before it; nil without one
	stream bool
	read   bool // the client has received the first words
}

func disconnects() []disconnect {
	hold := (*testrig.Call).Hold
	return []disconnect{
		{name: "before-headers", script: hold, stream: true},
		{name: "before-headers-whole", script: hold},
		{name: "second-target", script: hold, before: testrig.Status(503), stream: true},
		{name: "after-headers", script: headersThenSilence, stream: true},
		{name: "after-headers-whole", script: headersThenSilence},
		{name: "before-first-word", script: preambleThenSilence, stream: true},
		{name: "mid-stream", script: stall, stream: true, read: true},
		{name: "mid-flood", script: flood, stream: true, read: true},
		{name: "mid-body", script: stall},
	}
}

func preambleThenSilence(c *testrig.Call) bool {
	c.StartStream()
	c.Chunks(c.Reply("bad").Stream().Head...)
	return c.Hold()
}

// flood sends words without end.
func flood(c *testrig.Call) bool {
	s := c.Reply("bad").Stream()
	c.StartStream()
	c.Chunks(s.Head...)
	for block := testrig.Chunk(strings.Join(s.Words, "")); c.Write(block); {
	}
	return c.Hold()
}

// runDisconnects disconnects in every phase and measures when the upstream notices.
func runDisconnects(ctx context.Context, r *rig) {
	type check struct {
		disconnect
		pair
		name, model string
		target      *testrig.Target
	}
	c := &config{top: []string{timeouts(10 * time.Minute)}}
	var all []check
	for _, p := range pairs(r.short) {
		for _, d := range disconnects() {
			one := check{disconnect: d, pair: p, name: "cancel/" + d.name + "/" + p.String(), model: fmt.Sprintf("c%d", len(all))}
			if !r.Wants(one.name) {
				continue
			}
			one.target = r.up.Handle(one.model, d.script)
			providers := []string{c.provider(one.model, p.upstream, r.up.URL(one.model, p.upstream))}
			if d.before != nil {
				before := "before-" + one.model
				r.up.Handle(before, d.before)
				providers = append([]string{c.provider(before, p.upstream, r.up.URL(before, p.upstream))}, providers...)
			}
			c.model(one.model, providers)
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return
	}
	r.with(ctx, c, func(g *gateway) {
		testrig.Each(len(all), 4, func(i int) {
			one, began, cpu := all[i], time.Now(), testrig.ReadCPUTime()
			took, problem := one.leave(ctx, g, one.client, one.model, one.target)
			r.Figures(one.name, fmt.Sprintf("noticed after %v", took.Round(time.Millisecond)), began, cpu,
				[]string{testrig.When(took > noticeGoal, "%v, want at most %v", took, noticeGoal)}, problem)
		})
	})
}

// leave sends a request, disconnects and returns how soon the upstream noticed. Nothing but the client
// ends the attempt: the timeouts are longer than the check.
func (l disconnect) leave(ctx context.Context, g *gateway, d testrig.Dialect, model string, t *testrig.Target) (time.Duration, string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A connection of its own, which the cancelled context closes.
	client := &testrig.Client{URL: g.URL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	received := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		resp, err := client.Open(ctx, d, testrig.Query{Model: model, Stream: l.stream})
		if err != nil {
			return
		}
		defer resp.Body.Close()
		_, err = io.ReadFull(resp.Body, make([]byte, 64))
		close(received)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // until it disconnects
		}
	}()
	if !eventually(ctx, patience, func() bool { return t.Open.Load() == 1 }) {
		return 0, "the target was never tried"
	}
	if l.read {
		select {
		case <-received:
		case <-time.After(patience):
			return 0, "the first words did not reach the client"
		}
	}
	testrig.Pause(ctx, 50*time.Millisecond) // in the middle of the phase, not at its beginning
	turns := testrig.NewTurns(ctx, g.Gateway)
	defer turns.Close()
	left := time.Now()
	cancel()
	if _, noticed := turns.Within(context.Background(), noticeTurns, func() bool { return t.Disconnects.Load() == 1 }); !noticed {
		return 0, fmt.Sprintf("the client disconnected, and the gateway answered %v's worth of other requests before the upstream noticed", noticeTurns)
	}
	<-over
	return t.DisconnectedAt().Sub(left), testrig.Unless(t.Calls.Load() == 1, "%d attempts on the target", t.Calls.Load())
}
