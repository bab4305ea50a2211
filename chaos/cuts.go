package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stride is the step between two places where a stream is cut. It shares no
// factor with the lengths of the events, so that all of their parts are hit.
const stride = 37

// runCuts is R12: a stream is cut at many places, in three ways, and no client
// takes what it got for a whole answer.
func runCuts(ctx context.Context, b *bench) error {
	var pairs []pair
	s := &setup{top: []string{b.can.timeouts(4 * limit)}}
	for i, p := range allPairs(b.short) {
		if b.wants(cutName(p)) {
			pairs = append(pairs, p)
			tag := fmt.Sprintf("cut%d", i)
			b.up.add(tag, playCutAt)
			s.family(fmt.Sprintf("%s-%s-", p.client, p.upstream), s.provider(tag, p.upstream, b.up.url(tag, p.upstream)))
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		b.cutPair(ctx, g, p)
	}
	b.up.hangUp()
	_, err = g.stop()
	return err
}

func cutName(p pair) string { return "r12/cut-anywhere/" + p.String() }

// cutPair cuts one pair's stream at every place.
func (b *bench) cutPair(ctx context.Context, g *gateway, p pair) {
	began := time.Now()
	text := strings.Join(answer{p.upstream, wordsOf("bad")}.stream().all(), "")
	proof := proofAt(p.upstream)
	var places []int
	for at := 1; at < len(text); at += stride {
		places = append(places, at)
	}
	wrong := make([]string, len(places))
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	each(4, order, func(i int) {
		model := fmt.Sprintf("%s-%s-%d-%s", p.client, p.upstream, places[i], endings()[i%3])
		wrong[i] = judgeCutAt(p, g.ask(ctx, p.client, model, true), places[i] >= proof)
		if wrong[i] != "" {
			wrong[i] = model + ": " + wrong[i]
		}
	})
	b.check(cutName(p), fmt.Sprintf("%d places, the end is proven at byte %d of %d", len(places), proof, len(text)), began, wrong...)
}

// judgeCutAt returns what is wrong with the answer.
func judgeCutAt(p pair, h heard, proven bool) string {
	v := judge(p.client, h, true)
	body := clip(string(h.body), 300)
	switch {
	case h.broken != nil:
		return fmt.Sprintf("the transfer broke off: %v", h.broken)
	case !strings.HasPrefix(textOf("bad"), v.text):
		return "words that the upstream has not said: " + body
	case proven && v.finished && v.fault == "" && v.odd == "" && v.text == textOf("bad"):
		return "" // the last event of Chat may be missing: the finish reason says enough
	case v.whole():
		return "a cut answer looks whole: " + body
	case v.fault == "" || v.odd != "":
		return fmt.Sprintf("status %d, neither whole nor an error: %s: %s", h.status, v, body)
	case v.finished && !proven:
		return "an end that was not proven: " + body
	}
	return ""
}

func endings() []string { return []string{"close", "reset", "clean"} }

// playCutAt reads from the model's name where and how the stream ends.
func playCutAt(c *call) bool {
	parts := strings.Split(c.model, "-")
	at, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return c.whole(500, jsonMedia, c.d.fault(500, "no place to cut at"))
	}
	text := strings.Join(c.good("bad").stream().all(), "")
	c.head(200, eventMedia, -1)
	c.chunks(text[:min(at, len(text))])
	switch parts[len(parts)-1] {
	case "clean":
		return c.end()
	case "reset":
		c.wait(5 * time.Millisecond) // so that most of it is read
		return c.reset()
	}
	return false
}

// proofAt is the byte of the stream from which on its end is proven: that of the
// event with the finish reason, without its blank line.
func proofAt(d dialect) int {
	s := answer{d, wordsOf("bad")}.stream()
	last := map[dialect]int{chat: 0, responses: 3, messages: 1, gemini: 0}[d]
	before := append(append(append([]string{}, s.head...), s.words...), s.tail[:last+1]...)
	return len(strings.Join(before, "")) - len("\n\n")
}
