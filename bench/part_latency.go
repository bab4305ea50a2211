package main

import (
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// rateConns is enough for every rate: at 10,000 requests a second each may take 12 ms.
const rateConns = 128

// timed returns a job at a fixed rate.
func (b *bench) timed(a *arm, rate, seconds float64) job {
	j := b.whole(a, 2048, 1024)
	j.Mode, j.Conns, j.Warm, j.Rate, j.Seconds = "rate", rateConns, 2*rateConns, rate, seconds
	return j
}

// latencyBound is the maximum p99 of a rate, in milliseconds.
const latencyBound = 5

// ratePart searches the highest rate whose 99th percentile is below the bound.
func (b *bench) ratePart() {
	b.look()
	for round := range 2 {
		for _, a := range b.choose(direct, bareChat, nginxArm, ours, oursMessages, "peers") {
			asked := 0
			found := highest(2000, 4, func(rate float64) bool {
				var s sample
				if err := testrig.Run(func() { s = b.drive(a, b.timed(a, rate, 1.2)) }); err != nil {
					b.say("%s at %.0f/s: %v", a.name, rate, err)
					return false
				}
				asked += s.Asked
				return s.Failed == 0 && s.P99 < latencyBound && float64(s.Asked)/s.Seconds > 0.97*rate
			})
			b.note(b.report.of("rate", a, 0), round, sample{result: result{Asked: asked}}, found)
			b.say("  round %d, %s: %.0f/s", round+1, a.name, found)
		}
	}
}

// latencyPart measures at fixed rates and at half of the highest rate of bare. It records
// the latency above that of direct requests to the upstream in the same round.
func (b *bench) latencyPart() {
	rates := []float64{500, 1000, 2000}
	for _, x := range rates {
		b.say("  at %.0f/s", x)
		b.latencies(b.latencyArms(), "latency", x, x, 3)
	}
	if most, ok := b.report.value("rate", bareChat, 0); ok {
		b.say("  at %.0f/s, half of bare's highest", most/2)
		b.latencies(b.latencyArms(), "half", 0, most/2, 5)
	}
	b.say("  first token")
	b.added(b.latencyArms(), "first", 0, 3, func(a *arm) job {
		j := b.burst(a, 20)
		j.Mode, j.Conns, j.Warm, j.Rate, j.Seconds = "rate", rateConns, 2*rateConns, 200, 1.5
		return j
	}, func(s sample) (p50, p99 float64) { return s.First50, s.First99 })
}

func (b *bench) latencyArms() []*arm {
	return b.choose(direct, bareChat, nginxArm, ours, oursMessages, "peers")
}

// latencies records the added latency at one rate.
func (b *bench) latencies(arms []*arm, table string, x, rate float64, rounds int) {
	b.added(arms, table, x, rounds, func(a *arm) job { return b.timed(a, rate, 1.5) }, func(s sample) (p50, p99 float64) { return s.P50, s.P99 })
}

// added records two percentiles of each arm, less those of direct requests, which come
// first in every round. For direct requests it records the percentiles themselves.
func (b *bench) added(arms []*arm, table string, x float64, rounds int, load func(*arm) job, of func(sample) (p50, p99 float64)) {
	for round := range rounds {
		var base50, base99 float64
		for _, a := range arms {
			s := b.drive(a, load(a))
			p50, p99 := of(s)
			b.note(b.report.of(table+"-p50", a, x), round, s, p50-base50)
			b.note(b.report.of(table+"-p99", a, x), round, s, p99-base99)
			if a.name == direct {
				base50, base99 = p50, p99
			}
		}
	}
}
