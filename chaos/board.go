package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// So many pairs of the board, and so many cases of each, run at a time. Nearly all of them wait.
const parallelPairs, parallelCases = 4, 60

// boardCase is one square of the board: a scenario in one mode for one pair of dialects.
type boardCase struct {
	*scenario
	pair
	mode
	both bool // there is a second, healthy target

	name      string
	model     string
	bad, good *testrig.Target
}

// runBoard runs every scenario, with one gateway for each pair of dialects.
func runBoard(ctx context.Context, r *rig) {
	var done atomic.Int64
	all := pairs(r.short)
	testrig.Each(len(all), parallelPairs, func(i int) {
		err := r.alone(ctx, func(ctx context.Context, own *rig) { own.boardPair(ctx, all[i], &done) })
		if err != nil {
			r.Fail("board/"+all[i].String(), err.Error(), 0)
		}
		if done.Load() > 0 {
			r.Progress("board %s: %d cases so far", all[i], done.Load())
		}
	})
}

func (r *rig) boardPair(ctx context.Context, p pair, done *atomic.Int64) {
	testrig.NoError(r.up.ListenBroken())
	c := &config{top: []string{timeouts(patience)}}
	var cases []*boardCase
	for _, s := range scenarios() {
		for _, m := range modes() {
			for _, both := range []bool{true, false} {
				b := &boardCase{scenario: s, pair: p, mode: m, both: both}
				b.name = strings.Join([]string{"board", s.name, p.String(), string(m), map[bool]string{true: "both", false: "only"}[both]}, "/")
				if s.applies(p, m) && r.Wants(b.name) {
					b.place(r.up, c, len(cases))
					cases = append(cases, b)
				}
			}
		}
	}
	if len(cases) == 0 {
		return
	}
	r.with(ctx, c, func(g *gateway) {
		testrig.Each(len(cases), parallelCases, func(i int) {
			began := time.Now()
			r.Check(cases[i].name, "", began, cases[i].run(ctx, g)...)
			done.Add(1)
		})
	})
}

// place puts the case's targets behind the gateway.
func (b *boardCase) place(u *testrig.Upstream, c *config, n int) {
	b.model = fmt.Sprintf("m%d", n)
	var more []string
	if b.mode == collected {
		more = []string{"upstream_stream: always"}
	}
	b.bad = u.Handle(fmt.Sprintf("bad%d", n), b.script)
	url := u.URL(b.bad.Name, b.upstream)
	if b.url != nil {
		url = b.url(u, b.bad.Name) + b.upstream.Base()
	}
	badMore := more
	if b.timeouts != "" {
		badMore = append(slices.Clone(more), b.timeouts)
	}
	providers := []string{c.provider(b.bad.Name, b.upstream, url, badMore...)}
	if b.both {
		b.good = u.Handle(fmt.Sprintf("good%d", n), testrig.Answer("good"))
		providers = append(providers, c.provider(b.good.Name, b.upstream, u.URL(b.good.Name, b.upstream), more...))
	}
	c.model(b.model, providers)
}

func (b *boardCase) count() int { return max(b.requests, 1) }

// run sends the case's requests and returns the problems of the first bad response.
func (b *boardCase) run(ctx context.Context, g *gateway) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	for i := range b.count() {
		before := b.bad.Calls.Load()
		resp := g.send(ctx, b.client, b.model, b.mode == streamed)
		attempts := b.bad.Calls.Load() - before
		if problems := b.judge(resp, i, attempts); strings.Join(problems, "") != "" {
			return append(problems, fmt.Sprintf("request %d of %d: status %d, target %q, attempts %q, %d attempts on the bad target, connection error %v, body: %s", i+1, b.count(), resp.Status,
				resp.Header.Get("Isogloss-Target"), resp.Header.Get("Isogloss-Attempts"), attempts, resp.Err, testrig.Clip(string(resp.Body), 900)))
		}
	}
	return nil
}

// judge compares one response with the scenario.
func (b *boardCase) judge(resp testrig.Response, request int, attempts int64) []string {
	o := b.client.Read(resp, b.mode == streamed)
	most := cmp.Or(b.attempts, 3)
	problems := []string{
		testrig.Unless(resp.Err == nil, "the connection failed: %v", resp.Err),
		testrig.Unless(attempts <= most, "%d attempts on the target for one request, want at most %d", attempts, most),
		testrig.When(b.secret != "" && strings.Contains(string(resp.Body), b.secret), "the client sees the provider's credential"),
		// The only target is always tried again: a repaired account does not wait for our timer.
		testrig.When(b.ejects && request > 0 && b.both && attempts > 0, "the target was tried again after its credential was refused"),
	}
	switch {
	case b.when == late && b.mode == streamed:
		return append(problems, b.judgeTruncated(resp, o)...)
	case b.copied && b.client == b.upstream:
		whole := resp.Status == 200 && o.Text == testrig.Text("bad") && o.Error == ""
		return append(problems, testrig.Unless(whole, "want status 200 and the text of the bad target, got status %d, %s", resp.Status, o))
	case slices.Contains(b.statuses, 200) && b.both && b.count() > 1:
		role, _, _ := strings.Cut(o.Text, " ")
		return append(problems, judgeComplete(resp, o, role))
	case slices.Contains(b.statuses, 200):
		return append(problems, judgeComplete(resp, o, "bad"))
	case b.both && !b.final:
		target := resp.Header.Get("Isogloss-Target")
		return append(problems, judgeComplete(resp, o, "good"), testrig.Unless(strings.HasPrefix(target, "good"), "Isogloss-Target is %q, want the second target", target))
	}
	return append(problems, b.judgeError(resp, o)...)
}

// judgeComplete is for answers that have to be complete and from one target.
func judgeComplete(resp testrig.Response, o testrig.Outcome, role string) string {
	complete := resp.Status == 200 && o.Complete() && o.Text == testrig.Text(role) && (role == "good" || role == "bad")
	return testrig.Unless(complete, "want status 200 and the complete answer of the %s target, got status %d, %s", role, resp.Status, o)
}

// judgeTruncated is for streams that fail after some words.
func (b *boardCase) judgeTruncated(resp testrig.Response, o testrig.Outcome) []string {
	return []string{
		testrig.Unless(resp.Status == 200, "status %d, want 200 and an error event", resp.Status),
		testrig.When(o.MayPassForComplete(), "a truncated answer passes for complete"),
		testrig.When(o.Error == "" || o.Invalid != "" || o.Ended && b.client != testrig.Gemini, "want an error event at the end, got %s", o),
		testrig.When(o.Text == "" || !strings.HasPrefix(testrig.Text("bad"), o.Text), "the text is not the beginning of the target's: %q", testrig.Clip(o.Text, 80)),
		testrig.When(b.good != nil && b.good.Calls.Load() != 0, "another target was tried after words were sent"),
	}
}

// allows reports whether the client may see a status. Bedrock has 424 or 500 for an upstream
// that fails, and 408 for one that is late.
func (b *boardCase) allows(status int) bool {
	if b.client == testrig.Converse {
		switch status {
		case http.StatusFailedDependency:
			status = http.StatusBadGateway
		case http.StatusInternalServerError:
			return slices.Contains(b.statuses, status) || slices.Contains(b.statuses, http.StatusBadGateway)
		case http.StatusRequestTimeout:
			status = http.StatusGatewayTimeout
		}
	}
	return slices.Contains(b.statuses, status)
}

// judgeError is for responses with an error status.
func (b *boardCase) judgeError(resp testrig.Response, o testrig.Outcome) []string {
	retryAfter := resp.Header.Get("Retry-After")
	return []string{
		testrig.Unless(b.allows(resp.Status), "status %d, want one of %v", resp.Status, b.statuses),
		testrig.When(o.Error == "" || o.Invalid != "", "want an error of the client's dialect, got %s", o),
		testrig.Unless(b.quoted == "" || strings.Contains(o.Error, b.quoted), "the error says %q, want the upstream's message", o.Error),
		testrig.Unless(b.retryAfter == "" || retryAfter == b.retryAfter, "Retry-After is %q, want %q", retryAfter, b.retryAfter),
		testrig.When(b.good != nil && b.good.Calls.Load() != 0, "another target was tried for the client's own fault"),
		testrig.When(b.ejects && (b.client == testrig.Chat || b.client == testrig.Responses) && o.Code != "upstream_auth", "the error's code is %q, want upstream_auth", o.Code),
	}
}
