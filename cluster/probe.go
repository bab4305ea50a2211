package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// refused reports whether a request was turned away by a limit, with an answer that
// says so.
func (a asked) refused() bool {
	return a.status == http.StatusTooManyRequests || a.status == http.StatusPaymentRequired
}

func (a asked) String() string {
	return fmt.Sprintf("%s on node %d: status %d, %q, %d tokens, whole %t, %v %s", a.tag, a.node+1, a.status, a.code, a.tokens, a.whole, a.broken, a.body)
}

var serial atomic.Int64

// tag is a name for one request that no other has.
func tag(what string) string { return fmt.Sprintf("%s-%d", what, serial.Add(1)) }

// spend asks for so many tokens, all of which the upstream says.
func (s *stage) spend(ctx context.Context, node int, k key, tokens int) asked {
	return s.ask(ctx, wish{key: k, model: cheap, node: node, script: script{Tag: tag("spend"), Say: tokens}})
}

// exactly holds that so many tokens can be spent and not one more: one more is
// refused on one node, so many are admitted on the next, and nothing on the third.
func (s *stage) exactly(ctx context.Context, k key, left int, within time.Duration) (took time.Duration, wrong []string) {
	if left < 0 {
		return 0, []string{fmt.Sprintf("the budget is overspent by %d tokens", -left)}
	}
	if a := s.spend(ctx, 0, k, left+1); !a.refused() {
		wrong = append(wrong, fmt.Sprintf("%d tokens are left, and a request for one more is not refused: %v", left, a))
	}
	if left > 0 {
		var last asked
		var late string
		took, late = waited(ctx, within, "", func() bool {
			last = s.spend(ctx, 1, k, left)
			return last.good() || !last.refused()
		})
		if late != "" || !last.good() {
			wrong = append(wrong, fmt.Sprintf("%d tokens are left, and a request for as many is not admitted after %v: %v", left, took.Round(time.Millisecond), last))
		}
	}
	if a := s.spend(ctx, 2, k, 1); !a.refused() {
		wrong = append(wrong, fmt.Sprintf("nothing is left, and a request for a token is not refused: %v", a))
	}
	return took, wrong
}

// background offers small whole answers to all nodes in turn until it is ended, and
// gives back what its clients saw.
func (s *stage) background(ctx context.Context, rate int, pick func(i int) (key, string)) (end func() []asked) {
	ctx, cancel := context.WithCancel(ctx)
	var seen history[asked]
	done := make(chan struct{})
	go func() {
		defer close(done)
		offer(ctx, rate, func(i int) {
			k, model := pick(i)
			// It goes to its end although the load has ended.
			seen.add(s.ask(context.WithoutCancel(ctx), wish{key: k, model: model, node: i % len(s.nodes), script: script{Tag: tag("load"), Say: 2}}))
		})
	}()
	return func() []asked {
		cancel()
		<-done
		return seen.list()
	}
}

// bad are complaints about those that are not as they should be.
func bad(all []asked, ok func(asked) bool) (wrong []string) {
	for _, a := range all {
		if !ok(a) {
			wrong = append(wrong, a.String())
		}
	}
	return wrong
}

// pause waits, or ends with the scenario.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
