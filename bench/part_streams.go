package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// held returns a job of streams that stay open, with an event in every interval of
// milliseconds.
func (b *bench) held(a *arm, every int) job {
	return a.job("hold", fmt.Sprintf("paced-%d", every), 2048, true)
}

// pacedPart measures streams with 50 events a second, by the events that arrived.
func (b *bench) pacedPart() {
	if b.o.quick {
		b.paced("paced", b.choose(bareChat, ours), 250, 5)
		return
	}
	arms := b.choose(bareChat, nginxArm, ours, bareDefault, oursDefault, oursMessages, bareMessages, oursAnswers, "peers")
	for _, s := range []struct{ open, rounds int }{{100, 2}, {250, 3}, {500, 4}, {1000, 3}} {
		b.paced("paced", arms, s.open, s.rounds)
	}
}

func (b *bench) paced(table string, arms []*arm, open, rounds int) {
	b.say("  %d streams", open)
	for round := range rounds {
		for _, a := range arms {
			j := b.held(a, 20)
			j.Stages, j.Seconds = []int{open}, 1.5
			s := b.drive(a, j)
			b.note(b.report.of(table, a, float64(open)), round, s, micros(s.cpu, max(1, s.Events)))
			b.note(b.report.of(table+"-delivered", a, float64(open)), round, sample{}, 100*float64(s.Events)/(s.Seconds*50*float64(open)))
		}
	}
}

// memoryPart opens thousands of slow streams on processes of their own.
func (b *bench) memoryPart() {
	most := b.mostStreams()
	if most < 9000 {
		b.remark("memory was measured with %d streams: a process may have %d descriptors, and 9,000 streams take 19,000", most, b.files)
	}
	if b.o.quick {
		b.memory("memory", b.choose(bareChat, ours, oursMessages), 0, []int{quickStreams})
		return
	}
	b.memory("memory", b.choose(bareChat, nginxArm, ours, bareDefault, oursDefault, oursMessages, bareMessages, oursAnswers, "peers"), 0, []int{1000, 3000, most})
	b.memory("memory", b.choose(bareChat, nginxArm, ours, oursMessages, oursAnswers), 1, []int{most})
}

// quickStreams are the open streams of a quick run.
const quickStreams = 1000

// mostStreams returns the largest number of open streams. A gateway accepts a third of its descriptors from one address.
func (b *bench) mostStreams() int { return min(9000, (b.files-1000)/3) }

func (b *bench) memory(table string, arms []*arm, round int, stages []int) {
	for _, a := range arms {
		b.say("  round %d, %s", round+1, a.name)
		b.oneMemory(table, a, round, stages)
	}
}

func (b *bench) oneMemory(table string, a *arm, round int, stages []int) {
	b.oneMemoryOf(table, a, round, stages, func(ctx context.Context) *process { return b.startUpstream(ctx, "") })
}

// oneMemoryOf measures with an upstream of its own too.
func (b *bench) oneMemoryOf(table string, a *arm, round int, stages []int, upstream func(context.Context) *process) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	own := *a
	if a.fresh != nil {
		up := upstream(ctx)
		defer up.stop()
		own.proc = a.fresh(ctx, up.addr)
		defer own.proc.stop()
	}
	testrig.NoError(b.probe(&own)) // what the first request allocates is no stream's
	idle := testrig.Must(own.proc.rss())
	counts, _ := own.proc.counts(ctx)
	j := b.held(&own, 5000)
	j.Stages, j.Seconds = stages, 6 // long enough for each stream to have its second event
	s := b.startLoad(j)
	defer s.close()
	for _, open := range stages {
		s.next() // the streams are open
		before := testrig.Must(own.proc.cpu())
		s.proceed()
		held := s.next() // they have settled
		used := testrig.Must(own.proc.cpu()) - before
		after := testrig.Must(own.proc.rss())
		x := float64(open)
		b.note(b.report.of(table, a, x), round, sample{result: held}, (after-idle)/x/1024)
		b.note(b.report.of(table+"-total", a, x), round, sample{}, after/(1<<20))
		b.note(b.report.of(table+"-cpu", a, x), round, sample{}, 100*used.Seconds()/held.Seconds)
		if c, ok := own.proc.counts(ctx); ok {
			b.note(b.report.of(table+"-go", a, x), round, sample{}, (c.inuse-counts.inuse)/x/1024)
		}
	}
}

// startPart starts the gateway several times, with few models and with many, and the bare
// proxy as often.
func (b *bench) startPart() {
	a, bare := b.choose(ours)[0], b.choose(bareChat)[0]
	for _, models := range []int{10, 100000} {
		if models > 10 && b.o.quick {
			continue
		}
		for round := range b.size(9, 5) {
			if models > 10 && round == 3 {
				break
			}
			if models == 10 {
				p := b.startBare(b.ctx, b.upstream.addr)
				p.stop()
				b.note(b.report.of("start", bare, float64(models)), round, sample{result: result{Asked: 1}}, float64(p.ready)/float64(time.Millisecond))
			}
			p := b.startGateway(b.ctx, b.upstream.addr, setting{models: models})
			p.stop()
			b.note(b.report.of("start", a, float64(models)), round, sample{result: result{Asked: 1}}, float64(p.ready)/float64(time.Millisecond))
		}
	}
}

// modelsPart uses tables of different sizes and requests all of their models in turn.
func (b *bench) modelsPart() {
	sizes := []int{10, 100, 1000, 10000, 100000}
	if b.o.quick {
		sizes = []int{10, 100000}
	}
	var arms []*arm
	for _, n := range sizes {
		p := b.startGateway(b.ctx, b.upstream.addr, setting{models: n})
		defer p.stop()
		p.metrics = "" // telling thousands of series is work that has nothing to do with requests
		arms = append(arms, &arm{name: ours, base: ours, proc: p, client: testrig.Chat})
	}
	for round := range 9 {
		for i, a := range arms {
			j := b.whole(a, 2048, 1024)
			j.Body = a.job("closed", tableModel(0), 2048, false).Body
			j.Models, j.Total = sizes[i], 1500
			if round == 0 {
				j.Warm = 5000 // more than the metrics tell apart
			}
			s := b.drive(a, j)
			b.note(b.report.of("models", a, float64(sizes[i])), round, s, micros(s.cpu, j.Total))
		}
	}
}
