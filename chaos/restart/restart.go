// Package restart replaces a gateway by new processes while streams are open and
// requests come in, and counts what is lost. Nothing may be.
package restart

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/chaos/rig"
)

// Options say how much is done. The zero value of each means what Default has.
type Options struct {
	Restarts   int
	Streams    int           // that are open at any time
	StreamTime time.Duration // of each
	Workers    int           // that each ask one thing after the other
	Pause      time.Duration // between two requests of a worker, at random up to twice as long
}

// Default is a gateway in production: 1,000 streams of 20 s, 64 workers, ten
// restarts.
func Default() Options {
	return Options{Restarts: 10, Streams: 1000, StreamTime: 20 * time.Second, Workers: 64, Pause: 50 * time.Millisecond}
}

func (o Options) orDefault() Options {
	d := Default()
	return Options{
		Restarts: or(o.Restarts, d.Restarts), Streams: or(o.Streams, d.Streams), StreamTime: or(o.StreamTime, d.StreamTime),
		Workers: or(o.Workers, d.Workers), Pause: or(o.Pause, d.Pause),
	}
}

func or[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Result is what came of it.
type Result struct {
	Handovers       []Handover
	Streams, Cut    int64 // that ended whole, and that did not
	Answers, Failed int64 // that were whole, and that were not
	Reasons         []string
}

// Lost reports whether anything was.
func (r Result) Lost() bool { return r.Cut+r.Failed > 0 }

// Handover is one restart.
type Handover struct {
	Open     int64         // streams at the time of the signal
	Ready    time.Duration // from the signal to the new pid
	Draining time.Duration // from the new pid to the old process saying so
	Ended    time.Duration // from the new pid to the old process's end
	Files    int           // descriptors of the new process when it was ready; 0 where that is not known
}

func (h Handover) String() string {
	return fmt.Sprintf("%d streams open; new process ready after %s, old one draining %s later, ended %s later; %d descriptors",
		h.Open, h.Ready.Round(time.Millisecond), h.Draining.Round(time.Millisecond), h.Ended.Round(time.Millisecond), h.Files)
}

const (
	events   = 40 // of each stream
	patience = 30 * time.Second
)

// The model found is a worker's, and the list that has it is away during the restarts: a
// process that serves before it has read what was kept of it would say that there is no
// such model.
const (
	configuration = `
data: %q
discover: { file: %q, networks: [127.0.0.0/8] }
providers: { up: { protocol: openai-chat, base_url: %q } }
models: { fast: { targets: [up/m] } }
`
	workers = `[{"id": "w", "model": "found", "protocol": "openai-chat", "url": %q, "name": "m"}]`
)

// Run does it with a built gateway. The error is of what kept it from being done;
// what was lost is in the result.
func Run(ctx context.Context, bin string, o Options, progress func(string)) (Result, error) {
	o = o.orDefault()
	up, err := rig.NewUpstream(events, o.StreamTime/events)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = up.Close() }()
	dir, err := os.MkdirTemp("", "restart")
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	list := filepath.Join(dir, "workers.json")
	if err := os.WriteFile(list, fmt.Appendf(nil, workers, up.URL), 0o600); err != nil {
		return Result{}, err
	}
	data := filepath.Join(dir, "data")
	g, err := rig.Start(ctx, bin, dir, fmt.Sprintf(configuration, data, list, up.URL))
	if err != nil {
		return Result{}, err
	}
	s := &scenario{Options: o, gateway: g, progress: progress, over: make(chan struct{})}
	var result Result
	if err = loseWorkers(ctx, list, filepath.Join(data, "workers.snapshot")); err == nil {
		result, err = s.run(ctx)
	}
	if stopped := g.Stop(ctx); err == nil {
		err = stopped
	}
	return result, err
}

// loseWorkers takes the list away once the gateway has a copy of its own.
func loseWorkers(ctx context.Context, list, kept string) error {
	err := rig.Until(ctx, patience, "the list of workers is not kept", func() bool {
		_, err := os.Stat(kept)
		return err == nil
	})
	if err != nil {
		return err
	}
	return os.Remove(list)
}

// scenario is one run.
type scenario struct {
	Options
	gateway  *rig.Gateway
	progress func(string)

	streams, answers rig.Tally
	open             atomic.Int64 // streams
	over             chan struct{}
	wg               sync.WaitGroup
}

func (s *scenario) run(ctx context.Context) (Result, error) {
	for i := range s.Streams {
		s.wg.Go(func() { s.follow(ctx, i) })
	}
	for range s.Workers {
		s.wg.Go(func() { s.ask(ctx) })
	}
	var r Result
	var err error
	for range s.Restarts {
		var h Handover
		if h, err = s.restart(ctx); err != nil {
			break
		}
		r.Handovers = append(r.Handovers, h)
		s.progress(h.String())
	}
	close(s.over)
	s.wg.Wait()
	r.Streams, r.Cut = s.streams.Whole.Load(), s.streams.Failed.Load()
	r.Answers, r.Failed = s.answers.Whole.Load(), s.answers.Failed.Load()
	r.Reasons = append(s.streams.Reasons(), s.answers.Reasons()...)
	return r, err
}

// follow has one stream open at a time. They do not all end at once.
func (s *scenario) follow(ctx context.Context, i int) {
	c := rig.NewClient(s.gateway.URL)
	defer c.Close()
	kinds := append(rig.Streams("fast"), rig.Streams("found")...)
	kind := kinds[i%len(kinds)]
	for s.pause(time.Duration(i) * s.StreamTime / time.Duration(s.Streams)); !s.done(); {
		begun := false
		err := c.Follow(ctx, kind, events, func() { begun = true; s.open.Add(1) })
		if begun {
			s.open.Add(-1)
		}
		s.streams.Count(err)
	}
}

func (s *scenario) ask(ctx context.Context) {
	c := rig.NewClient(s.gateway.URL)
	defer c.Close()
	for !s.done() {
		s.answers.Count(c.Ask(ctx, "fast"))
		s.pause(rand.N(2 * s.Pause)) //nolint:gosec // no secret
	}
}

func (s *scenario) done() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// pause ends early with the scenario.
func (s *scenario) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.over:
	}
}

// restart replaces the process and waits for the old one's end. It begins when all
// streams are open, or nearly: one that has ended is soon asked for again.
func (s *scenario) restart(ctx context.Context) (Handover, error) {
	g, old := s.gateway, s.gateway.PID()
	enough := int64(s.Streams) * 99 / 100
	err := rig.Until(ctx, s.StreamTime+patience, "the streams do not open", func() bool { return s.open.Load() >= enough })
	if err != nil {
		return Handover{}, err
	}
	probe, err := dialHealth(ctx, g.URL)
	if err != nil {
		return Handover{}, err
	}
	defer probe.close()
	h := Handover{Open: s.open.Load()}
	sent := time.Now()
	if err := g.Signal(syscall.SIGHUP); err != nil {
		return h, err
	}
	if err := rig.Until(ctx, patience, "there is no new process", func() bool { pid := g.PID(); return pid != 0 && pid != old }); err != nil {
		return h, fmt.Errorf("%w; the log: %s", err, g.Log())
	}
	ready := time.Now()
	h.Ready = ready.Sub(sent)
	if err := rig.Until(ctx, patience, "the old process does not say that it is draining", probe.draining); err != nil {
		return h, err
	}
	h.Draining = time.Since(ready)
	h.Files = files(g.PID())
	err = rig.Until(ctx, s.StreamTime+patience, "the old process does not end", func() bool { return !rig.Alive(old) })
	h.Ended = time.Since(ready)
	return h, err
}

func files(pid int) int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // only Linux has it
	return len(all)
}
