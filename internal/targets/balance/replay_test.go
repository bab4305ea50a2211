//go:build !race

package balance

import (
	"fmt"
	"slices"
	"testing"
)

// Requirements of TestReplayedConversations, which checks the cache policy on replayed
// conversations.
const (
	wantHits = 1.8  // minimum cache hits, relative to round-robin
	wantLoad = 1.25 // maximum load of an engine, relative to the mean
	wantHome = 0.9  // minimum share of requests that have the same home for all gateways
	wantSame = 0.65 // minimum share of requests that all gateways send to the same engine, each with the load that it sees
)

type pick func(s *simulation, gateway, conv int) int

func roundRobin(s *simulation, gw, _ int) int {
	s.gateways[gw].turn++
	return s.gateways[gw].turn % len(s.engines)
}

func by(p Policy) pick {
	return func(s *simulation, gw, conv int) int {
		return Order(p, s.gateways[gw].choices, s.session(gw, conv))[0]
	}
}

// replay runs a workload on engines whose caches together hold the given part of its
// working set.
func replay(w workload, part float64, gateways int, p pick) *simulation {
	return newSimulation(w, int(part*float64(w.workingSet()))/8, gateways, p)
}

// churn removes an engine, adds it again with an empty cache, and adds another one.
func churn(s *simulation) *simulation {
	s.change(s.end*3/8, func() { s.remove("pool/engine-3") })
	s.change(s.end*5/8, func() { s.add("pool/engine-3") })
	s.change(s.end*6/8, func() { s.add("pool/engine-8") })
	return s
}

func (r result) check(t *testing.T, roundRobin result) {
	t.Helper()
	if got := r.hitRate() / roundRobin.hitRate(); got < wantHits {
		t.Errorf("the hit rate is %.2f times that of round-robin, want %.2f", got, wantHits)
	}
	if r.mostRequests > wantLoad || r.mostInFlight > wantLoad {
		t.Errorf("an engine has %.3f times the mean of requests, and %.3f times that in flight; want at most %.2f", r.mostRequests, r.mostInFlight, wantLoad)
	}
}

func TestReplayedConversations(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := chat().make(seed)
			base := replay(w, 0.5, 1, roundRobin).run()
			t.Logf("%d requests; the caches hold half of a working set of %d tokens", base.requests, w.workingSet())
			t.Log(header)
			t.Log(base.row("round-robin", base))
			t.Log(replay(w, 0.5, 1, by(LeastBusy)).run().row("least-busy", base))
			for _, gateways := range []int{1, 3} {
				got := replay(w, 0.5, gateways, by(CacheAware)).run()
				t.Log(got.row(fmt.Sprint("cache, gateways: ", gateways), base))
				got.check(t, base)
			}
		})
	}
}

func TestReplayWhileEnginesComeAndGo(t *testing.T) {
	w := chat().make(0)
	base := churn(replay(w, 0.5, 1, roundRobin)).run()
	t.Log(header)
	t.Log(base.row("round-robin", base))
	for _, gateways := range []int{1, 3} {
		got := churn(replay(w, 0.5, gateways, by(CacheAware))).run()
		t.Log(got.row(fmt.Sprint("cache, gateways: ", gateways), base))
		got.check(t, base)
	}
}

// TestThreeGatewaysAgree lets three gateways order the targets of each request, sends it
// from one of them, and checks how often they agree.
func TestThreeGatewaysAgree(t *testing.T) {
	w := chat().make(0)
	var all, home, same int
	watch := func(s *simulation, gw, conv int) int {
		var picks, homes [3]int
		for g := range picks {
			session := s.session(g, conv)
			picks[g] = Order(CacheAware, s.gateways[g].choices, session)[0]
			idle := slices.Clone(s.gateways[g].choices)
			for i := range idle {
				idle[i].Load = nil
			}
			homes[g] = Order(CacheAware, idle, session)[0]
		}
		all++
		if homes[0] == homes[1] && homes[1] == homes[2] {
			home++
		}
		if picks[0] == picks[1] && picks[1] == picks[2] {
			same++
		}
		return picks[gw]
	}
	churn(replay(w, 0.5, 3, watch)).run()
	homes, picks := float64(home)/float64(all), float64(same)/float64(all)
	t.Logf("of %d requests all three gateways name the same home for %.1f%% and, with the load that each sees, make the same choice for %.1f%%", all, 100*homes, 100*picks)
	if homes < wantHome || picks < wantSame {
		t.Errorf("want %.2f and %.2f", wantHome, wantSame)
	}
}

// TestReplayedVariants checks the cache policy for other cache sizes and workloads. Jobs
// with a single turn share only their system prompts, of which round-robin also caches
// the popular ones. The cache policy gains less there, but must not lose.
func TestReplayedVariants(t *testing.T) {
	for name, sh := range map[string]shape{"chat": chat(), "jobs": jobs()} {
		w := sh.make(0)
		for _, part := range []float64{0.25, 1} {
			t.Run(fmt.Sprint(name, ", caches of ", part), func(t *testing.T) {
				base := replay(w, part, 1, roundRobin).run()
				t.Log(header)
				t.Log(base.row("round-robin", base))
				got := replay(w, part, 1, by(CacheAware)).run()
				t.Log(got.row("cache", base))
				if got.hitRate() < 1.2*base.hitRate() {
					t.Errorf("hit rate %.3f, round-robin %.3f", got.hitRate(), base.hitRate())
				}
				if got.mostRequests > wantLoad || got.mostInFlight > wantLoad {
					t.Errorf("requests %.3f, in flight %.3f times the mean", got.mostRequests, got.mostInFlight)
				}
			})
		}
	}
}
