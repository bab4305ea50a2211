package main

import "fmt"

// rateConns is enough for every rate that is asked for: at 10,000 requests a second it
// allows each to take 12 ms.
const rateConns = 128

// timed is a job at a fixed rate.
func (b *bench) timed(a *arm, rate, seconds float64) job {
	j := b.whole(a, 2048, 1024)
	j.Mode, j.Conns, j.Warm, j.Rate, j.Seconds = "rate", rateConns, 2*rateConns, rate, seconds
	return j
}

// latencyBound is what a rate must hold, in milliseconds.
const latencyBound = 5

// ratePart searches the highest rate whose 99th percentile is below the bound.
func (b *bench) ratePart() error {
	b.look()
	for round := range 2 {
		for _, a := range b.choose(direct, bareChat, nginxArm, ours, oursMessages, "peers") {
			asked := 0
			found := highest(2000, 4, func(rate float64) bool {
				s, err := b.drive(a, b.timed(a, rate, 1.2))
				if err != nil {
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
	return nil
}

// latencyPart asks at fixed rates, and at half of what bare carries. What is noted is
// the latency above that of the upstream asked directly in the same round.
func (b *bench) latencyPart() error {
	rates := []float64{500, 1000, 2000}
	for _, x := range rates {
		b.say("  at %.0f/s", x)
		if err := b.latencies(b.latencyArms(), "latency", x, x, 3); err != nil {
			return err
		}
	}
	if most, ok := b.report.value("rate", bareChat, 0); ok {
		b.say("  at %.0f/s, half of bare's highest", most/2)
		if err := b.latencies(b.latencyArms(), "half", 0, most/2, 5); err != nil {
			return err
		}
	}
	b.say("  first token")
	return b.firstTokens(3)
}

func (b *bench) latencyArms() []*arm {
	return b.choose(direct, bareChat, nginxArm, ours, oursMessages, "peers")
}

// latencies notes p50 and p99 at one rate. The upstream asked directly comes first.
func (b *bench) latencies(arms []*arm, table string, x, rate float64, rounds int) error {
	for round := range rounds {
		var base sample
		for _, a := range arms {
			s, err := b.drive(a, b.timed(a, rate, 1.5))
			if err != nil {
				return err
			}
			if a.name == direct {
				base = s
				b.note(b.report.of(table+"-p50", a, x), round, s, s.P50)
				b.note(b.report.of(table+"-p99", a, x), round, s, s.P99)
				continue
			}
			b.note(b.report.of(table+"-p50", a, x), round, s, s.P50-base.P50)
			b.note(b.report.of(table+"-p99", a, x), round, s, s.P99-base.P99)
		}
	}
	return nil
}

// firstTokens notes the time to the first event with text.
func (b *bench) firstTokens(rounds int) error {
	for round := range rounds {
		var base sample
		for _, a := range b.choose(direct, bareChat, nginxArm, ours, oursMessages, "peers") {
			j := b.burst(a, 20)
			j.Mode, j.Conns, j.Warm, j.Rate, j.Seconds = "rate", rateConns, 2*rateConns, 200, 1.5
			s, err := b.drive(a, j)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			if a.name == direct {
				base = s
			}
			first50, first99 := s.First50, s.First99
			if a.name != direct {
				first50, first99 = first50-base.First50, first99-base.First99
			}
			b.note(b.report.of("first-p50", a, 0), round, s, first50)
			b.note(b.report.of("first-p99", a, 0), round, s, first99)
		}
	}
	return nil
}
