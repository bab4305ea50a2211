package main

import (
	"fmt"
	"time"
)

const workers = 32 // connections that ask at once

// whole is a job of answers that are not streamed.
func (b *bench) whole(a *arm, in, out int) job {
	return job{
		Mode: "closed", Addr: a.proc.addr, Path: a.client.path, Head: a.client.header, Key: a.proc.key,
		Body: a.client.body(a.model(fmt.Sprintf("whole-%d", out)), in, false), Bytes: out, Conns: workers, Warm: 5 * workers,
	}
}

// burst is a job of streams whose n events come at once.
func (b *bench) burst(a *arm, n int) job {
	return job{
		Mode: "closed", Addr: a.proc.addr, Path: a.client.path, Head: a.client.header, Key: a.proc.key, Stream: true,
		Body: a.client.body(a.model(fmt.Sprintf("burst-%d", n)), 2048, true), Events: n, End: a.client.end, Conns: workers, Warm: 2 * workers,
	}
}

func micros(d time.Duration, n int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(n)
}

// cpuPart has all arms answer the same requests in turns.
func (b *bench) cpuPart() error {
	for _, w := range []struct {
		table         string
		in, out       int
		total, rounds int
	}{
		{"request-2k-1k", 2 << 10, 1 << 10, 1500, 11},
		{"request-200k-1k", 200 << 10, 1 << 10, 300, 5},
		{"request-2k-100k", 2 << 10, 100 << 10, 400, 5},
	} {
		if b.o.quick && w.table != "request-2k-1k" {
			continue
		}
		total := w.total
		b.say("  %s, %d requests a round", w.table, total)
		for round := range w.rounds {
			for _, a := range b.requestArms() {
				j := b.whole(a, w.in, w.out)
				j.Total = total
				if err := b.oneRequest(a, w.table, round, j); err != nil {
					return err
				}
			}
		}
	}
	if b.o.quick {
		return nil
	}
	return b.bodySizes()
}

// oneRequest notes the cost of a request.
func (b *bench) oneRequest(a *arm, table string, round int, j job) error {
	s, err := b.drive(a, j)
	if err != nil {
		return err
	}
	total := float64(j.Total)
	b.note(b.report.of(table, a, 0), round, s, micros(s.cpu, j.Total))
	if s.mallocs > 0 {
		b.note(b.report.of(table+"-allocs", a, 0), round, s, s.mallocs/total)
		b.note(b.report.of(table+"-bytes", a, 0), round, s, s.bytes/total/1024)
	}
	if a.name == ours {
		b.note(b.report.of("log-line", a, 0), round, s, s.logged/total)
	}
	return nil
}

// bodySizes measures how cost grows with the request's body.
func (b *bench) bodySizes() error {
	b.say("  bodies of 2 KB to 1 MB")
	for round := range 3 {
		for _, w := range []struct{ kb, total int }{{2, 800}, {20, 500}, {200, 150}, {1000, 50}} {
			for _, a := range b.choose(bareChat, nginxArm, ours, oursMessages, "peers") {
				j := b.whole(a, w.kb<<10, 1<<10)
				j.Total = w.total
				s, err := b.drive(a, j)
				if err != nil {
					return err
				}
				b.note(b.report.of("body", a, float64(w.kb)), round, s, micros(s.cpu, w.total))
			}
		}
	}
	return nil
}

// requestArms are those that answer requests; a quick run only has what it holds to a limit.
func (b *bench) requestArms() []*arm {
	if b.o.quick {
		return b.choose(bareChat, ours)
	}
	return b.choose(bareChat, nginxArm, ours, oursAlias, oursQuiet, oursMessages, bareMessages, oursAnswers, "peers")
}

// eventsPart has them stream. The cost of an event is the whole cost of the stream by
// the number of its events with text, its request included, for all alike.
func (b *bench) eventsPart() error {
	arms := b.choose(bareChat, nginxArm, ours, oursAlias, oursQuiet, oursMessages, bareMessages, oursAnswers, "peers")
	const events = 200
	streams := 150
	b.say("  bursts of %d, %d streams a round", events, streams)
	for round := range b.size(9, 11) {
		for _, a := range arms {
			if err := b.oneBurst(a, "burst", 0, round, job{Events: events, Total: streams}); err != nil {
				return err
			}
		}
	}
	if b.o.quick {
		return nil
	}
	b.say("  bursts of 1 to 1000")
	for round := range 3 {
		for _, n := range []int{1, 10, 50, 200, 1000} {
			for _, a := range b.choose(bareChat, nginxArm, ours, oursMessages, "peers") {
				if err := b.oneBurst(a, "stream-events", float64(n), round, job{Events: n, Total: max(40, min(800, 30000/n))}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// oneBurst notes the cost of an event, or for the table of growth that of a stream.
func (b *bench) oneBurst(a *arm, table string, x float64, round int, want job) error {
	j := b.burst(a, want.Events)
	j.Total = want.Total
	s, err := b.drive(a, j)
	if err != nil {
		return err
	}
	if table == "stream-events" {
		b.note(b.report.of(table, a, x), round, s, micros(s.cpu, want.Total))
		return nil
	}
	n := want.Events * want.Total
	b.note(b.report.of(table, a, x), round, s, micros(s.cpu, n))
	if s.mallocs > 0 {
		b.note(b.report.of(table+"-allocs", a, x), round, s, s.mallocs/float64(n))
	}
	return nil
}
