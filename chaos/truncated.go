package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// stride is the distance between two places where a stream is cut. It shares no factor
// with the lengths of the events, so that every part of an event is hit.
const stride = 37

// runTruncated plays r12: a stream is cut at many places, in three ways, and no client
// takes what it got for a complete answer.
func runTruncated(ctx context.Context, r *rig) {
	c := &config{top: []string{timeouts(patience)}}
	all := testrig.Pick(pairs(r.short), func(p pair) bool { return r.Wants(truncatedName(p)) })
	for _, p := range all {
		tag := fmt.Sprintf("%s-%s", p.client, p.upstream)
		r.up.Handle(tag, cutAt)
		c.family(tag+"-", c.provider(tag, p.upstream, r.up.URL(tag, p.upstream)))
	}
	if len(all) == 0 {
		return
	}
	r.with(ctx, c, func(g *gateway) {
		for _, p := range all {
			r.cutPair(ctx, g, p)
		}
	})
}

func truncatedName(p pair) string { return "r12/cut-anywhere/" + p.String() }

// cutPair cuts the stream of one pair at every place.
func (r *rig) cutPair(ctx context.Context, g *gateway, p pair) {
	began := time.Now()
	text := strings.Join(testrig.Reply{Dialect: p.upstream, Words: testrig.Words("bad")}.Stream().All(), "")
	proof := testrig.FinishOffset(p.upstream, "bad")
	problems := make([]string, (len(text)-2)/stride+1)
	testrig.Each(len(problems), 4, func(i int) {
		at := 1 + i*stride
		model := fmt.Sprintf("%s-%s-%d-%s", p.client, p.upstream, at, []string{"close", "reset", "end"}[i%3])
		if problem := judgeCutAt(p, g.send(ctx, p.client, model, true), at >= proof); problem != "" {
			problems[i] = model + ": " + problem
		}
	})
	r.Check(truncatedName(p), fmt.Sprintf("%d places, the finish reason ends at byte %d of %d", len(problems), proof, len(text)), began, problems...)
}

// judgeCutAt returns the problem of a response. finished says whether the upstream had
// sent its finish reason.
func judgeCutAt(p pair, resp testrig.Response, finished bool) string {
	o := p.client.Read(resp, true)
	body := testrig.Clip(string(resp.Body), 300)
	switch {
	case resp.Err != nil:
		return fmt.Sprintf("the connection failed: %v", resp.Err)
	case !strings.HasPrefix(testrig.Text("bad"), o.Text):
		return "words that the upstream did not send: " + body
	case finished && o.Finished && o.Error == "" && o.Invalid == "" && o.Text == testrig.Text("bad"):
		return "" // the last event of Chat may be missing after the finish reason
	case o.Complete():
		return "a truncated answer passes for complete: " + body
	case o.Error == "" || o.Invalid != "":
		return fmt.Sprintf("status %d, neither complete nor an error: %s: %s", resp.Status, o, body)
	case o.Finished && !finished:
		return "a finish reason that the upstream did not send: " + body
	}
	return ""
}

// cutAt reads from the model's name where and how the stream ends.
func cutAt(c *testrig.Call) bool {
	parts := strings.Split(c.Model, "-")
	at, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return c.Error(500, "the model does not name a place")
	}
	r := c.Reply("bad")
	r.Usage = false // the places are those of a stream without it
	text := strings.Join(r.Stream().All(), "")
	c.StartStream()
	c.Chunks(text[:min(at, len(text))])
	switch parts[len(parts)-1] {
	case "end":
		return c.End()
	case "reset":
		c.Wait(5 * time.Millisecond) // so that the gateway reads most of it
		return c.Reset()
	}
	return false
}
