package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// purpose is one request that a client means, however often it is sent.
type purpose struct {
	wish
	again bool // it is sent twice, with the same key
	twin  bool // both at once, on two nodes
	asked []asked
	tried int // attempts after the first answer
}

// purposes are all faults, each met by a retry, by another target and by nothing.
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
					p := &purpose{again: repeat > 0, twin: repeat == 2}
					p.wish = wish{key: k, model: way.model, node: len(all) % nodes, stream: stream, most: 20, script: way.script}
					p.Tag, p.Say, p.Fault, p.After = tag("r10-"+way.name), 8, f, 3
					p.Every = 2 * time.Millisecond
					if p.again {
						p.once = "once-" + p.Tag
					}
					all = append(all, p)
				}
			}
		}
	}
	return all
}

// runOneCharge is R10.
func runOneCharge(ctx context.Context, s *stage) error {
	began := time.Now()
	k, err := s.newKey(ctx, "r10", limits{budget: 100_000_000})
	if err != nil {
		return err
	}
	if err := s.useEverywhere(ctx, k, dear); err != nil {
		return err
	}
	all := purposes(k)
	each(len(all), 32, func(i int) { s.pursue(ctx, all[i]) })
	rows, err := s.settledFor(ctx, settleTime)
	if err != nil {
		return err
	}
	byID := map[string]row{}
	for _, r := range rows {
		byID[r.id] = r
	}
	tries := map[string][]served{}
	for _, u := range s.up.history.list() {
		tries[u.tag] = append(tries[u.tag], u)
	}
	var charges, repeats []string
	for _, p := range all {
		charges = append(charges, p.charges(byID, tries[p.Tag])...)
		repeats = append(repeats, p.repeats(len(tries[p.Tag]))...)
	}
	s.check("r10/one-charge", fmt.Sprintf("%d requests, %d of them sent twice", len(all), count(all, func(p *purpose) bool { return p.again })), began, charges...)
	s.check("r10/sent-again", "an answer that was given is given again or refused, and nobody is asked twice", began, repeats...)
	s.check("r10/ledger", fmt.Sprintf("%d rows", len(rows)), began, s.compared(ctx, rows)...)
	return nil
}

// pursue sends a request once or twice.
func (s *stage) pursue(ctx context.Context, p *purpose) {
	second := p.wish
	second.node = (p.node + 1) % nodes
	if p.twin {
		p.asked = make([]asked, 2)
		var wg sync.WaitGroup
		wg.Go(func() { p.asked[0] = s.ask(ctx, p.wish) })
		wg.Go(func() { p.asked[1] = s.ask(ctx, second) })
		wg.Wait()
		return
	}
	p.asked = []asked{s.ask(ctx, p.wish)}
	p.tried = count(s.up.history.list(), func(u served) bool { return u.tag == p.Tag })
	if p.again {
		p.asked = append(p.asked, s.ask(ctx, second))
	}
}

func (p *purpose) String() string {
	return fmt.Sprintf("%s (%q, stream %t, twice %t, at once %t)", p.Tag, p.Fault, p.stream, p.again, p.twin)
}

// sends are how often an attempt may be sent where connections that were kept open
// are dead before they have brought a byte: nobody can tell that from a reset.
const sends = 3

// charges returns what is wrong with the rows of a request.
func (p *purpose) charges(byID map[string]row, tries []served) (wrong []string) {
	rows, charged, listed, delivered := 0, 0, 0, 0
	seen := map[string]bool{}
	for _, a := range p.asked {
		delivered = max(delivered, a.tokens)
		r, found := byID[a.id]
		if !found || seen[a.id] {
			continue
		}
		seen[a.id] = true
		if r.outcome != "refused" && r.outcome != "cached" { // the gateway's own answer to the second is no request of anybody
			rows++
		}
		listed += r.attempts
		if r.cost > 0 {
			charged++
		}
	}
	want := min(delivered, 1)
	return []string{
		unless(charged == want, "%v: charged %d times, want %d", p, charged, want),
		unless(rows == 1, "%v: %d rows, want 1", p, rows),
		unless(listed == len(tries) || p.Fault == refuses && listed < len(tries) && len(tries) <= listed*sends, "%v: the ledger lists %d attempts, the upstreams saw %d", p, listed, len(tries)),
	}
}

// repeats returns what is wrong with the second answer.
func (p *purpose) repeats(tried int) (wrong []string) {
	if !p.again {
		return nil
	}
	first, second := p.asked[0], p.asked[1]
	if p.twin {
		good := count(p.asked, asked.good)
		conflict := count(p.asked, func(a asked) bool { return a.status == http.StatusConflict })
		return []string{unless(p.Fault != "" || good+conflict == 2 && good > 0, "%v: two at once: %v; %v", p, first, second)}
	}
	if !first.good() {
		return nil
	}
	same := second.good() && second.tokens == first.tokens || second.status == http.StatusConflict
	return []string{unless(same, "%v: the second time: %v", p, second), unless(tried == p.tried, "%v: the upstreams were asked %d times, then %d", p, p.tried, tried)}
}
