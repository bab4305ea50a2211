package main

import (
	"context"
	"fmt"
	"time"
)

// held is a job of streams that stay open, with an event every so many milliseconds.
func (b *bench) held(a *arm, every int) job {
	return job{
		Mode: "hold", Addr: a.proc.addr, Path: a.client.path, Head: a.client.header, Key: a.proc.key, Stream: true,
		Body: a.client.body(a.model(fmt.Sprintf("paced-%d", every)), 2048, true),
	}
}

// pacedPart measures streams with 50 events a second. Cost is by events that arrived.
func (b *bench) pacedPart() error {
	if b.o.quick {
		return b.paced("paced", b.choose(bareChat, ours), 250, 5)
	}
	arms := b.choose(bareChat, nginxArm, ours, oursMessages, bareMessages, oursAnswers, "peers")
	for _, s := range []struct{ open, rounds int }{{100, 2}, {250, 3}, {500, 4}, {1000, 3}} {
		if err := b.paced("paced", arms, s.open, s.rounds); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) paced(table string, arms []*arm, open, rounds int) error {
	b.say("  %d streams", open)
	for round := range rounds {
		for _, a := range arms {
			j := b.held(a, 20)
			j.Stages, j.Seconds = []int{open}, 1.5
			s, err := b.drive(a, j)
			if err != nil {
				return err
			}
			b.note(b.report.of(table, a, float64(open)), round, s, micros(s.cpu, max(1, s.Events)))
			b.note(b.report.of(table+"-delivered", a, float64(open)), round, sample{}, 100*float64(s.Events)/(s.Seconds*50*float64(open)))
		}
	}
	return nil
}

// memoryPart opens thousands of slow streams on processes of their own.
func (b *bench) memoryPart() error {
	most := b.mostStreams()
	if most < 9000 {
		b.remark("memory was measured with %d streams: a process may have %d descriptors, and 9,000 streams take 19,000", most, b.files)
	}
	if b.o.quick {
		return b.memory("memory", b.choose(bareChat, ours, oursMessages), 0, []int{min(4000, most)})
	}
	if err := b.memory("memory", b.choose(bareChat, nginxArm, ours, oursMessages, bareMessages, oursAnswers, "peers"), 0, []int{1000, 3000, most}); err != nil {
		return err
	}
	return b.memory("memory", b.choose(bareChat, nginxArm, ours, oursMessages, oursAnswers), 1, []int{most})
}

// mostStreams is how many are held open at most.
func (b *bench) mostStreams() int { return min(9000, (b.files-1000)/2) }

func (b *bench) memory(table string, arms []*arm, round int, stages []int) error {
	for _, a := range arms {
		b.say("  round %d, %s", round+1, a.name)
		if err := b.oneMemory(table, a, round, stages); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) oneMemory(table string, a *arm, round int, stages []int) error {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	own := *a
	if a.fresh != nil {
		up, err := b.startUpstream(ctx, "")
		if err != nil {
			return err
		}
		defer up.stop()
		if own.proc, err = a.fresh(ctx, up.addr); err != nil {
			return err
		}
		defer own.proc.stop()
	}
	if err := b.probe(&own); err != nil { // what the first request allocates is no stream's
		return err
	}
	before, err := own.proc.rss()
	if err != nil {
		return err
	}
	counts, _ := own.proc.counts(ctx)
	j := b.held(&own, 5000)
	j.Stages, j.Seconds = stages, 6 // long enough for each stream to have its second event
	s, err := b.startLoad(j)
	if err != nil {
		return err
	}
	defer s.close()
	for _, open := range stages {
		after, held, err := b.oneStage(&own, s)
		if err != nil {
			return err
		}
		x := float64(open)
		b.note(b.report.of(table, a, x), round, sample{result: held}, (after-before)/x/1024)
		if c, ok := own.proc.counts(ctx); ok {
			b.note(b.report.of(table+"-go", a, x), round, sample{}, (c.inuse-counts.inuse)/x/1024)
		}
	}
	return nil
}

// oneStage waits until the streams are open and have had their time, and reads the
// memory that is resident then.
func (b *bench) oneStage(a *arm, s *session) (rss float64, held result, err error) {
	if _, err := s.next(); err != nil {
		return 0, held, err
	}
	if err := s.proceed(); err != nil {
		return 0, held, err
	}
	if held, err = s.next(); err != nil {
		return 0, held, err
	}
	rss, err = a.proc.rss()
	return rss, held, err
}

// startPart starts the gateway several times, with few models and with many.
func (b *bench) startPart() error {
	a := b.choose(ours)[0]
	for _, models := range []int{10, 100000} {
		if models > 10 && b.o.quick {
			continue
		}
		for round := range b.size(9, 5) {
			if models > 10 && round == 3 {
				break
			}
			p, err := b.startGateway(b.ctx, b.upstream.addr, setting{models: models})
			if err != nil {
				return err
			}
			p.stop()
			b.note(b.report.of("start", a, float64(models)), round, sample{result: result{Asked: 1}}, float64(p.ready)/float64(time.Millisecond))
		}
	}
	return nil
}

// modelsPart has tables of different sizes and asks for all of their models in turn.
func (b *bench) modelsPart() error {
	sizes := []int{10, 100, 1000, 10000, 100000}
	if b.o.quick {
		sizes = []int{10, 100000}
	}
	var arms []*arm
	for _, n := range sizes {
		p, err := b.startGateway(b.ctx, b.upstream.addr, setting{models: n})
		if err != nil {
			return err
		}
		defer p.stop()
		p.metrics = "" // telling thousands of series is work that has nothing to do with requests
		arms = append(arms, &arm{name: ours, base: ours, proc: p, client: chatClient()})
	}
	for round := range 9 {
		for i, a := range arms {
			j := b.whole(a, 2048, 1024)
			j.Body = a.client.body(tableModel(0), 2048, false)
			j.Models, j.Total = sizes[i], 1500
			if round == 0 {
				j.Warm = 5000 // more than the metrics tell apart
			}
			s, err := b.drive(a, j)
			if err != nil {
				return err
			}
			b.note(b.report.of("models", a, float64(sizes[i])), round, s, micros(s.cpu, j.Total))
		}
	}
	return nil
}
