package main

import (
	"fmt"
	"time"
)

const workers = 32 // connections that ask at once

// whole returns a job of non-streaming requests.
func (b *bench) whole(a *arm, in, out int) job {
	j := a.job("closed", fmt.Sprintf("whole-%d", out), in, false)
	j.Bytes, j.Conns, j.Warm = out, workers, 5*workers
	return j
}

// burst returns a job of streams whose n events are sent at once.
func (b *bench) burst(a *arm, n int) job {
	j := a.job("closed", fmt.Sprintf("burst-%d", n), 2048, true)
	j.Events, j.Conns, j.Warm = n, workers, 2*workers
	return j
}

func micros(d time.Duration, n int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(n)
}

// cpuPart sends the same requests to all arms in turn.
func (b *bench) cpuPart() {
	for _, w := range []struct {
		table         string
		in, out       int
		total, rounds int
	}{
		{"request-2k-1k", 2 << 10, 1 << 10, 1500, 11},
		{"request-200k-1k", 200 << 10, 1 << 10, 300, 5},
		{"request-2k-100k", 2 << 10, 100 << 10, 400, 5},
	} {
		total := w.total
		b.say("  %s, %d requests a round", w.table, total)
		for round := range w.rounds {
			for _, a := range b.requestArms(w.table) {
				j := b.whole(a, w.in, w.out)
				j.Total = total
				b.oneRequest(a, w.table, round, j)
			}
		}
	}
	if b.o.quick {
		return
	}
	b.bodySizes()
}

// oneRequest records the cost of a request.
func (b *bench) oneRequest(a *arm, table string, round int, j job) {
	s := b.drive(a, j)
	total := float64(j.Total)
	b.note(b.report.of(table, a, 0), round, s, micros(s.cpu, j.Total))
	if s.mallocs > 0 {
		b.note(b.report.of(table+"-allocs", a, 0), round, s, s.mallocs/total)
		b.note(b.report.of(table+"-bytes", a, 0), round, s, s.bytes/total/1024)
	}
	if a.name == ours {
		b.note(b.report.of("log-line", a, 0), round, s, s.logged/total)
	}
}

// bodySizes measures how cost grows with the request's body.
func (b *bench) bodySizes() {
	b.say("  bodies of 2 KB to 1 MB")
	for round := range 3 {
		for _, w := range []struct{ kb, total int }{{2, 800}, {20, 500}, {200, 150}, {1000, 50}} {
			for _, a := range b.choose(bareChat, nginxArm, ours, oursMessages, "peers") {
				j := b.whole(a, w.kb<<10, 1<<10)
				j.Total = w.total
				s := b.drive(a, j)
				b.note(b.report.of("body", a, float64(w.kb)), round, s, micros(s.cpu, w.total))
			}
		}
	}
}

// requestArms returns the arms of a table of requests; a quick run has only those with limits.
func (b *bench) requestArms(table string) []*arm {
	switch {
	case b.o.quick && table == "request-2k-1k":
		return b.choose(bareChat, ours)
	case b.o.quick:
		return b.choose(bareChat, ours, oursMessages, bareMessages, oursAnswers)
	}
	return b.choose(bareChat, nginxArm, ours, oursAlias, oursQuiet, bareDefault, oursDefault, oursMessages, bareMessages, oursAnswers, "peers")
}

// eventsPart measures streams. The cost of an event is the cost of the stream, with its
// request, divided by its events with text.
func (b *bench) eventsPart() {
	arms := b.choose(bareChat, nginxArm, ours, oursAlias, oursQuiet, bareDefault, oursDefault, oursMessages, bareMessages, oursAnswers, "peers")
	const events = 200
	streams := 150
	b.say("  bursts of %d, %d streams a round", events, streams)
	for round := range b.size(9, 11) {
		for _, a := range arms {
			b.oneBurst(a, "burst", 0, round, job{Events: events, Total: streams})
		}
	}
	if b.o.quick {
		return
	}
	b.say("  bursts of 1 to 1000")
	for round := range 3 {
		for _, n := range []int{1, 10, 50, 200, 1000} {
			for _, a := range b.choose(bareChat, nginxArm, ours, oursMessages, "peers") {
				b.oneBurst(a, "stream-events", float64(n), round, job{Events: n, Total: max(40, min(800, 30000/n))})
			}
		}
	}
}

// oneBurst records the cost of an event, or of a stream in the table of growth.
func (b *bench) oneBurst(a *arm, table string, x float64, round int, want job) {
	j := b.burst(a, want.Events)
	j.Total = want.Total
	s := b.drive(a, j)
	if table == "stream-events" {
		b.note(b.report.of(table, a, x), round, s, micros(s.cpu, want.Total))
		return
	}
	n := want.Events * want.Total
	b.note(b.report.of(table, a, x), round, s, micros(s.cpu, n))
	if s.mallocs > 0 {
		b.note(b.report.of(table+"-allocs", a, x), round, s, s.mallocs/float64(n))
	}
}
