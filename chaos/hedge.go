package main

import (
	"context"
	"fmt"
	"time"
)

// runHedge compares a hedged model with a plain one whose first target is now and
// then slow to begin: three requests in a hundred wait a second.
func runHedge(ctx context.Context, b *bench) error {
	const name = "hedge/bimodal-first-token"
	if !b.wants(name) {
		return nil
	}
	if !b.can["hedge"] {
		b.failed(name, "the binary knows no hedge", 0)
		return nil
	}
	began := time.Now()
	s := &setup{}
	for _, m := range []string{"plain", "hedged"} {
		b.up.add(m+"-first", playBimodal)
		b.up.add(m+"-second", playAfter(20*time.Millisecond))
		more := []string{}
		if m == "hedged" {
			more = append(more, "hedge: { percentile: 95, share: 0.05 }")
		}
		s.model(m, []string{s.provider(m+"-first", chat, b.up.url(m+"-first", chat)), s.provider(m+"-second", chat, b.up.url(m+"-second", chat))}, more...)
	}
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	during := 40 * time.Second
	if b.short {
		during = 10 * time.Second
	}
	var warm, l load
	run := func(to *load, during time.Duration) int {
		return offer(ctx, 200, during, func(i int) {
			m := []string{"plain", "hedged"}[i%2]
			to.add(g.measure(ctx, query{model: m, stream: true, class: m}))
		})
	}
	run(&warm, 4*time.Second) // what is usual has to be learnt
	offered := run(&l, during) / 2
	calls, asked := b.up.calls("hedged-first")+b.up.calls("hedged-second"), len(l.all)/2+len(warm.all)/2
	extra := float64(calls)/float64(asked) - 1 // of all that were ever sent
	plain := l.pick(func(s sample) bool { return s.class == "plain" })
	hedged := l.pick(func(s sample) bool { return s.class == "hedged" })
	bad := l.pick(func(s sample) bool { return !isGood(s) })
	p, h := quantile(firsts(plain), 0.99), quantile(firsts(hedged), 0.99)
	var wrong []string
	if len(bad) > 0 {
		wrong = append(wrong, fmt.Sprintf("%d requests failed; one with status %d: %s", len(bad), bad[0].status, bad[0].body))
	}
	if h > p/2 {
		wrong = append(wrong, fmt.Sprintf("p99 until the first token is %s hedged and %s plain, want half", ms(h), ms(p)))
	}
	if extra > 0.05 {
		wrong = append(wrong, fmt.Sprintf("%.2f %% more calls, want at most 5 %%", extra*100))
	}
	b.check(name, fmt.Sprintf("p99 until the first token: plain %s, hedged %s; %.2f %% more calls, %d requests each", ms(p), ms(h), extra*100, offered), began, wrong...)
	b.up.hangUp()
	_, err = g.stop()
	return err
}

// calls is how often a target was asked.
func (u *upstream) calls(name string) int64 {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if t := u.targets[name]; t != nil {
		return t.calls.Load()
	}
	return 0
}

func playBimodal(c *call) bool {
	if c.n%33 == 0 {
		return playAfter(time.Second)(c)
	}
	return playAfter(20 * time.Millisecond)(c)
}

// playAfter sends headers at once and words after a while.
func playAfter(d time.Duration) script {
	return func(c *call) bool {
		a := c.good("good")
		if !c.stream {
			if !c.wait(d) {
				return false
			}
			return c.whole(200, jsonMedia, a.whole())
		}
		c.head(200, eventMedia, -1)
		s := a.stream()
		c.chunks(s.head...)
		if !c.wait(d) {
			return false
		}
		c.chunks(append(s.words, s.tail...)...)
		return c.end()
	}
}
