package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// purpose is one request that a client means, however often it sends it.
type purpose struct {
	request
	repeat    bool // sent twice, with the same key
	parallel  bool // both at once, on two nodes
	exchanges []exchange
	attempts  int // after the first answer
}

// purposes returns all faults, each with a retry, with a second target and without.
func purposes(k key) (all []*purpose) {
	faults := []fault{"", refuses, errors500, errors503, silent, resets, cuts, hangs}
	ways := []struct {
		name, model string
		script
	}{
		{"retry", "alone", script{Times: 1}}, {"another", "both", script{Who: "first"}}, {"nobody", "both", script{}},
	}
	for _, f := range faults {
		for _, way := range ways {
			for _, stream := range []bool{true, false} {
				for repeat := range 3 {
					p := &purpose{repeat: repeat > 0, parallel: repeat == 2}
					p.request = request{key: k, model: way.model, node: len(all) % nodes, stream: stream, maxTokens: 20, script: way.script}
					p.Tag, p.Say, p.Fault, p.After = tag("r10-"+way.name), 8, f, 3
					p.Every = 2 * time.Millisecond
					if p.repeat {
						p.once = "once-" + p.Tag
					}
					all = append(all, p)
				}
			}
		}
	}
	return all
}

// runOneCharge plays r10: every request is charged once.
func runOneCharge(ctx context.Context, s *stage) {
	began := time.Now()
	k := s.newKey(ctx, "r10", limits{budget: 100_000_000})
	s.useEverywhere(ctx, k, dear)
	all := purposes(k)
	testrig.Each(len(all), len(all), func(i int) { s.pursue(ctx, all[i]) })
	rows := s.settledFor(ctx, settleTime)
	judge := func() (charges, repeats []string) {
		byID := map[string]row{}
		for _, r := range rows {
			byID[r.id] = r
		}
		tries := map[string][]attempt{}
		for _, u := range s.up.attempts.List() {
			tries[u.tag] = append(tries[u.tag], u)
		}
		for _, p := range all {
			charges = append(charges, p.judgeCharges(byID, tries[p.Tag])...)
			repeats = append(repeats, p.judgeRepeat(s.up.begun(p.Tag))...)
		}
		return charges, repeats
	}
	charges, repeats := judge()
	// Rows of requests that delivered nothing may come later than the others.
	_ = testrig.Until(ctx, settleTime, "", func() bool {
		if strings.Join(charges, "") != "" {
			rows = testrig.Must(s.ledger(ctx))
			charges, repeats = judge()
		}
		return strings.Join(charges, "") == ""
	})
	s.Check("r10/one-charge", fmt.Sprintf("%d requests, %d of them sent twice", len(all), testrig.Count(all, func(p *purpose) bool { return p.repeat })), began, charges...)
	s.Check("r10/sent-again", "a repeated request gets the same answer or a conflict, and no second attempt", began, repeats...)
	s.Check("r10/ledger", fmt.Sprintf("%d rows", len(rows)), began, s.compared(ctx, rows)...)
}

// pursue sends the request once or twice.
func (s *stage) pursue(ctx context.Context, p *purpose) {
	second := p.request
	second.node = (p.node + 1) % nodes
	if p.parallel {
		p.exchanges = make([]exchange, 2)
		var wg sync.WaitGroup
		wg.Go(func() { p.exchanges[0] = s.send(ctx, p.request) })
		wg.Go(func() { p.exchanges[1] = s.send(ctx, second) })
		wg.Wait()
		// A node that finds Redis too slow cannot know whether the key was used. Its client tries again, and gets a
		// conflict until the claim of the first try has expired.
		unavailable := func(e exchange) bool { return e.code == "idempotency_unavailable" }
		if p.Fault == "" && slices.ContainsFunc(p.exchanges, unavailable) {
			_ = testrig.Until(ctx, 2*settleTime, "", func() bool {
				testrig.Pause(ctx, time.Second)
				for i, again := range []request{p.request, second} {
					if !p.exchanges[i].good() {
						p.exchanges[i] = s.send(ctx, again)
					}
				}
				return slices.ContainsFunc(p.exchanges, exchange.good) && !slices.ContainsFunc(p.exchanges, unavailable)
			})
		}
		return
	}
	p.exchanges = []exchange{s.send(ctx, p.request)}
	p.attempts = s.up.begun(p.Tag)
	if p.repeat {
		p.exchanges = append(p.exchanges, s.send(ctx, second))
	}
}

func (p *purpose) String() string {
	return fmt.Sprintf("%s (%q, stream %t, twice %t, at once %t)", p.Tag, p.Fault, p.stream, p.repeat, p.parallel)
}

// sends is how often the transport may send an attempt: a reset before the first byte
// looks like a kept connection that is dead.
const sends = 3

// judgeCharges returns the problems of the rows of a request.
func (p *purpose) judgeCharges(byID map[string]row, tries []attempt) (wrong []string) {
	rows, charged, listed, delivered := 0, 0, 0, 0
	seen := map[string]bool{}
	for _, a := range p.exchanges {
		delivered = max(delivered, a.tokens)
		r, found := byID[a.id]
		if !found || seen[a.id] {
			continue
		}
		seen[a.id] = true
		if r.outcome != "refused" && r.outcome != "cached" { // the gateway answered the repeated request by itself
			rows++
		}
		listed += r.attempts
		if r.cost > 0 {
			charged++
		}
	}
	want := min(delivered, 1)
	return []string{
		testrig.Unless(charged == want, "%v: charged %d times, want %d", p, charged, want),
		testrig.Unless(rows == 1, "%v: %d rows, want 1", p, rows),
		testrig.Unless(listed == len(tries) || p.Fault == refuses && listed < len(tries) && len(tries) <= listed*sends, "%v: the ledger lists %d attempts, the upstreams saw %d", p, listed, len(tries)),
	}
}

// judgeRepeat returns the problems of the second answer.
func (p *purpose) judgeRepeat(attempts int) (wrong []string) {
	if !p.repeat {
		return nil
	}
	first, second := p.exchanges[0], p.exchanges[1]
	if p.parallel {
		good := testrig.Count(p.exchanges, exchange.good)
		conflict := testrig.Count(p.exchanges, func(a exchange) bool { return a.status == http.StatusConflict })
		return []string{testrig.Unless(p.Fault != "" || good+conflict == 2 && good > 0, "%v: two at once: %v; %v", p, first, second)}
	}
	if !first.good() {
		return nil
	}
	same := second.good() && second.tokens == first.tokens || second.status == http.StatusConflict
	return []string{testrig.Unless(same, "%v: the second time: %v", p, second), testrig.Unless(attempts == p.attempts, "%v: %d attempts, then %d", p, p.attempts, attempts)}
}
