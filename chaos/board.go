package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// abreast is how many of the board's cases run at a time. Nearly all of them wait.
const abreast = 64

// boardCase is one square of the board.
type boardCase struct {
	*scenario
	pair
	mode
	both bool // a second target can rescue

	name      string
	model     string
	bad, good *target
}

func (c *boardCase) targets() string {
	if c.both {
		return "both"
	}
	return "only"
}

// runBoard runs every scenario, one gateway for each pair of dialects.
func runBoard(ctx context.Context, b *bench) error {
	var done atomic.Int64
	each(2, allPairs(b.short), func(p pair) {
		err := b.alone(ctx, func(ctx context.Context, own *bench) error { return own.boardPair(ctx, p, &done) })
		if err != nil {
			b.failed("board/"+p.String(), err.Error(), 0)
		}
		if done.Load() > 0 {
			b.progress("board %s: %d cases so far", p, done.Load())
		}
	})
	return nil
}

// boardPair runs the board for one pair.
func (b *bench) boardPair(ctx context.Context, p pair, done *atomic.Int64) error {
	s := &setup{top: []string{b.can.timeouts(limit)}}
	var cases []*boardCase
	for _, sc := range scenarios() {
		for _, m := range modes() {
			for _, both := range []bool{true, false} {
				c := &boardCase{scenario: sc, pair: p, mode: m, both: both}
				c.name = strings.Join([]string{"board", sc.name, p.String(), string(m), c.targets()}, "/")
				if sc.applies(p, m) && b.wants(c.name) {
					c.place(b.up, s, len(cases))
					cases = append(cases, c)
				}
			}
		}
	}
	if len(cases) == 0 {
		return nil
	}
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	each(abreast, cases, func(c *boardCase) {
		began := time.Now()
		b.check(c.name, "", began, c.run(ctx, g)...)
		done.Add(1)
	})
	if err := g.alive(); err != nil {
		return err
	}
	b.up.hangUp()
	_, err = g.stop()
	return err
}

// each runs do on all items, some at a time.
func each[T any](workers int, items []T, do func(T)) {
	var wg sync.WaitGroup
	next := make(chan T)
	for range workers {
		wg.Go(func() {
			for item := range next {
				do(item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	wg.Wait()
}

// place puts the case's targets behind the gateway.
func (c *boardCase) place(u *upstream, s *setup, n int) {
	tag := fmt.Sprintf("%s-%s-%d", c.client, c.upstream, n)
	c.model = fmt.Sprintf("m%d", n)
	var more []string
	if c.mode == collected {
		more = []string{"upstream_stream: always"}
	}
	c.bad = u.add("bad-"+tag, c.play)
	url := u.url(c.bad.name, c.upstream)
	if c.url != nil {
		url = c.url(u, c.bad.name, c.upstream)
	}
	names := []string{s.provider(fmt.Sprintf("bad%d", n), c.upstream, url, more...)}
	if c.both {
		c.good = u.add("good-"+tag, answerAs("good"))
		names = append(names, s.provider(fmt.Sprintf("good%d", n), c.upstream, u.url(c.good.name, c.upstream), more...))
	}
	s.model(c.model, names)
}

// run sends the case's requests and returns what is wrong with the answers.
func (c *boardCase) run(ctx context.Context, g *gateway) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.requests())*8*limit)
	defer cancel()
	var wrong []string
	for i := range c.requests() {
		before := c.bad.calls.Load()
		h := g.ask(ctx, c.client, c.model, c.mode == streamed)
		tried := c.bad.calls.Load() - before
		if w := c.judge(h, i, tried); len(w) > 0 {
			wrong = append(wrong, w...)
			wrong = append(wrong, fmt.Sprintf("request %d of %d: status %d, target %q, attempts %q, bad asked %d times, transfer %v, body: %s", i+1, c.requests(), h.status,
				h.header.Get("Isogloss-Target"), h.header.Get("Isogloss-Attempts"), tried, h.broken, clip(string(h.body), 900)))
			break
		}
	}
	return wrong
}

// judge compares one answer with what the scenario states.
func (c *boardCase) judge(h heard, request int, tried int64) []string {
	v := judge(c.client, h, c.mode == streamed)
	visible := c.when == late && c.mode == streamed
	var wrong []string
	say := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	say(h.broken == nil, "the transfer broke off: %v", h.broken)
	say(tried <= c.mayTry(), "the target was asked %d times for one request, want at most %d", tried, c.mayTry())
	say(c.secret == "" || !strings.Contains(string(h.body), c.secret), "the client sees our credential")
	// The last target is always asked: a vendor that mends our account should not
	// have to wait for our clock.
	if c.aside && request > 0 && c.both {
		say(tried == 0, "the target was asked again though its credential was refused")
	}
	switch {
	case visible:
		wrong = append(wrong, c.judgeCut(h, v)...)
	case slices.Contains(c.statuses, 200) && !c.both:
		wrong = append(wrong, judgeWhole(h, v, "bad")...)
	case slices.Contains(c.statuses, 200):
		wrong = append(wrong, judgeWhole(h, v, c.whoMay())...)
	case c.both && !c.final:
		wrong = append(wrong, judgeWhole(h, v, "good")...)
		target := h.header.Get("Isogloss-Target")
		say(strings.HasPrefix(target, "good"), "Isogloss-Target is %q, want the second target", target)
	default:
		wrong = append(wrong, c.judgeRefused(h, v)...)
	}
	return wrong
}

// whoMay is who may answer where the first target does so in the end.
func (c *boardCase) whoMay() string {
	if c.requests() > 1 {
		return "either"
	}
	return "bad"
}

// judgeWhole is for answers that have to be whole and from somebody.
func judgeWhole(h heard, v verdict, who string) []string {
	if h.status != 200 {
		return []string{fmt.Sprintf("status %d, want 200 with the answer of %s", h.status, who)}
	}
	if who == "either" {
		who, _, _ = strings.Cut(v.text, " ")
	}
	if !v.whole() || v.text != textOf(who) || who != "good" && who != "bad" {
		return []string{fmt.Sprintf("want the whole answer of %s, got %s", who, v)}
	}
	return nil
}

// judgeCut is for streams of which some words were seen.
func (c *boardCase) judgeCut(h heard, v verdict) []string {
	var wrong []string
	if h.status != 200 {
		wrong = append(wrong, fmt.Sprintf("status %d, want 200 and an error event", h.status))
	}
	if v.looksWhole() {
		wrong = append(wrong, "a cut answer looks whole")
	}
	if v.fault == "" || v.odd != "" || v.ended && c.client != gemini {
		wrong = append(wrong, fmt.Sprintf("want an error event at the end, got %s", v))
	}
	if v.text == "" || !strings.HasPrefix(textOf("bad"), v.text) {
		wrong = append(wrong, fmt.Sprintf("the text is not the beginning of the target's: %q", clip(v.text, 80)))
	}
	if c.good != nil && c.good.calls.Load() != 0 {
		wrong = append(wrong, "another target was asked after words were seen")
	}
	return wrong
}

// judgeRefused is for errors with a status of their own.
func (c *boardCase) judgeRefused(h heard, v verdict) []string {
	var wrong []string
	say := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	say(slices.Contains(c.statuses, h.status), "status %d, want one of %v", h.status, c.statuses)
	say(v.fault != "" && v.odd == "", "want an error of the client's dialect, got %s", v)
	say(c.quoted == "" || strings.Contains(v.fault, c.quoted), "the error says %q, want the upstream's words", v.fault)
	say(c.retryAfter == "" || h.header.Get("Retry-After") == c.retryAfter, "Retry-After is %q, want %q", h.header.Get("Retry-After"), c.retryAfter)
	say(c.good == nil || c.good.calls.Load() == 0, "another target was asked for what is the client's fault")
	if c.aside && (c.client == chat || c.client == responses) {
		say(v.code == "upstream_auth", "the error's code is %q, want upstream_auth", v.code)
	}
	return wrong
}
