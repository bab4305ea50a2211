package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// promptly is how soon an upstream has to notice that a client has left. The
// promise is 100 ms; the rest is for a machine that does other things.
const promptly = 250 * time.Millisecond

// leaving is a phase of a request in which its client goes away.
type leaving struct {
	name   string
	play   script // of the target that the client waits for
	first  script // of a target that fails before, where there is one
	stream bool
	read   bool // the client has seen the first words
}

func leavings() []leaving {
	return []leaving{
		{name: "before-headers", play: (*call).hold, stream: true},
		{name: "before-headers-whole", play: (*call).hold},
		{name: "second-target", play: (*call).hold, first: playStatus(503), stream: true},
		{name: "after-headers", play: playHeadersThenSilence, stream: true},
		{name: "after-headers-whole", play: playHeadersThenSilence},
		{name: "before-first-word", play: playPreamble, stream: true},
		{name: "mid-stream", play: playStall, stream: true, read: true},
		{name: "mid-flood", play: playFlood, stream: true, read: true},
		{name: "mid-body", play: playStall},
	}
}

func playPreamble(c *call) bool {
	c.head(200, eventMedia, -1)
	c.chunks(c.good("bad").stream().head...)
	return c.hold()
}

// playFlood talks without end.
func playFlood(c *call) bool {
	s := c.good("bad").stream()
	c.head(200, eventMedia, -1)
	c.chunks(s.head...)
	block := chunked(strings.Join(s.words, ""))
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if !c.write(block) {
			break
		}
	}
	return c.hold()
}

// runCancel leaves in every phase and looks at the upstream.
func runCancel(ctx context.Context, b *bench) error {
	type one struct {
		leaving
		pair
		name, model string
		target      *target
	}
	s := &setup{top: []string{b.can.timeouts(20 * time.Second)}}
	var all []*one
	for _, p := range allPairs(b.short) {
		for _, l := range leavings() {
			o := &one{leaving: l, pair: p, name: "cancel/" + l.name + "/" + p.String(), model: fmt.Sprintf("c%d", len(all))}
			if !b.wants(o.name) {
				continue
			}
			tag := fmt.Sprintf("cancel%d", len(all))
			o.target = b.up.add(tag, l.play)
			targets := []string{s.provider(tag, p.upstream, b.up.url(tag, p.upstream))}
			if l.first != nil {
				b.up.add("first-"+tag, l.first)
				targets = append([]string{s.provider("first-"+tag, p.upstream, b.up.url("first-"+tag, p.upstream))}, targets...)
			}
			s.model(o.model, targets)
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil
	}
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	each(4, all, func(o *one) {
		began := time.Now()
		took, wrong := leave(ctx, g, o.client, o.model, o.leaving, o.target)
		b.check(o.name, fmt.Sprintf("noticed after %v", took.Round(time.Millisecond)), began, wrong)
	})
	b.up.hangUp()
	_, err = g.stop()
	return err
}

// leave sends a request, goes away and says how soon the upstream has noticed.
func leave(ctx context.Context, g *gateway, d dialect, model string, l leaving, t *target) (time.Duration, string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A connection of its own: leaving closes it.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	mine := *g
	mine.client = client
	heard := make(chan struct{})
	over := make(chan error, 1)
	go func() {
		resp, err := mine.open(ctx, d, model, l.stream)
		if err != nil {
			over <- err
			return
		}
		defer resp.Body.Close()
		_, err = io.ReadFull(resp.Body, make([]byte, 64))
		close(heard)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		over <- err
	}()
	if !eventually(5*time.Second, func() bool { return t.open.Load() == 1 }) {
		return 0, "the target was never asked"
	}
	if l.read {
		select {
		case <-heard:
		case <-time.After(5 * time.Second):
			return 0, "the first words did not reach the client"
		}
	}
	time.Sleep(50 * time.Millisecond) // in the middle of the phase, not at its beginning
	left := time.Now()
	cancel()
	<-over
	if !eventually(5*time.Second, func() bool { return t.left.Load() == 1 }) {
		return 0, "the upstream was never told that the client has gone"
	}
	took := time.Unix(0, t.leftAt.Load()).Sub(left)
	if took > promptly {
		return took, fmt.Sprintf("the upstream noticed after %v, want at most %v", took, promptly)
	}
	if n := t.calls.Load(); n != 1 {
		return took, fmt.Sprintf("the target was asked %d times", n)
	}
	return took, ""
}

// eventually waits until something holds.
func eventually(most time.Duration, ok func() bool) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}
