// Package reload changes a gateway's configuration file without pause, and often to
// something that cannot be used, while requests come in. None may fail, and the
// last version that can be used has to be in use soon after.
package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/chaos/rig"
)

// Options say how much is done. The zero value of each means what Default has.
type Options struct {
	Changes  int           // of the file
	Poisoned int           // of these
	Every    time.Duration // a change
	Rate     int           // requests a second
}

// Default is a thousand changes in a minute, a hundred of them poisoned, at 500
// requests a second.
func Default() Options {
	return Options{Changes: 1000, Poisoned: 100, Every: 60 * time.Millisecond, Rate: 500}
}

func (o Options) orDefault() Options {
	d := Default()
	return Options{Changes: or(o.Changes, d.Changes), Poisoned: or(o.Poisoned, d.Poisoned), Every: or(o.Every, d.Every), Rate: or(o.Rate, d.Rate)}
}

func or[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Result is what came of it.
type Result struct {
	Changes, Poisoned int           // written while requests came in
	Loaded, Refused   int           // by the gateway; it need not see every version
	Settled           time.Duration // from the last change to its use
	Answers, Failed   int64
	Reasons           []string
	Unrefused         []string // poisons that were not refused when they stayed
	Panics            int      // in the log
	Memory, Files     [2]int   // resident KiB and descriptors, before and after; 0 where that is not known
}

func (r Result) String() string {
	return fmt.Sprintf("%d changes (%d poisoned): %d loaded, %d refused, the last in use after %s; %d answers, %d failed; memory %d to %d KiB, descriptors %d to %d",
		r.Changes, r.Poisoned, r.Loaded, r.Refused, r.Settled.Round(time.Millisecond), r.Answers, r.Failed, r.Memory[0], r.Memory[1], r.Files[0], r.Files[1])
}

// Promised is how soon the last good version is in use.
const Promised = time.Second

// Wrong says what was promised and not held, or nil.
func (r Result) Wrong() error {
	var all []error
	if r.Failed > 0 {
		all = append(all, fmt.Errorf("%d requests failed: %q", r.Failed, r.Reasons))
	}
	if r.Settled > Promised {
		all = append(all, fmt.Errorf("the last version was in use only after %s", r.Settled))
	}
	if len(r.Unrefused) > 0 {
		all = append(all, fmt.Errorf("these were not refused: %q", r.Unrefused))
	}
	if r.Panics > 0 {
		all = append(all, fmt.Errorf("there were %d panics", r.Panics))
	}
	return errors.Join(all...)
}

const (
	workers  = 50
	patience = 30 * time.Second
)

// Run does it with a built gateway. The error is of what kept it from being done.
func Run(ctx context.Context, bin string, o Options, progress func(string)) (Result, error) {
	o = o.orDefault()
	up, err := rig.NewUpstream(1, time.Millisecond)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = up.Close() }()
	dir, err := os.MkdirTemp("", "reload")
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	g, err := rig.Start(ctx, bin, dir, good(up.URL, 0))
	if err != nil {
		return Result{}, err
	}
	s := &scenario{Options: o, gateway: g, upstream: up.URL, progress: progress, over: make(chan struct{})}
	result, err := s.run(ctx)
	if stopped := g.Stop(ctx); err == nil {
		err = stopped
	}
	result.Panics = strings.Count(g.Log(), "panic")
	return result, err
}

// scenario is one run.
type scenario struct {
	Options
	gateway  *rig.Gateway
	upstream string
	progress func(string)

	answers rig.Tally
	over    chan struct{}
	wg      sync.WaitGroup
}

func (s *scenario) run(ctx context.Context) (Result, error) {
	for range workers {
		s.wg.Go(func() { s.ask(ctx) })
	}
	r, err := s.change(ctx)
	close(s.over)
	s.wg.Wait()
	r.Answers, r.Failed, r.Reasons = s.answers.Whole.Load(), s.answers.Failed.Load(), s.answers.Reasons()
	return r, err
}

// ask has a worker's share of the rate.
func (s *scenario) ask(ctx context.Context) {
	c := rig.NewClient(s.gateway.URL)
	defer c.Close()
	tick := time.NewTicker(time.Second * workers / time.Duration(s.Rate))
	defer tick.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-tick.C:
			s.answers.Count(c.Ask(ctx, "fast"))
		}
	}
}

// change writes all versions, and then each poison once more, to stay.
func (s *scenario) change(ctx context.Context) (Result, error) {
	r := Result{Changes: s.Changes, Poisoned: s.Poisoned}
	bad := poisons(s.upstream)
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for n := 1; n <= s.Changes; n++ {
		text := good(s.upstream, n)
		// Spread evenly from the first on, so that the last is good.
		if k := (n - 1) * s.Poisoned / s.Changes; n == 1 || k != (n-2)*s.Poisoned/s.Changes {
			text = bad[k%len(bad)].text
		}
		if err := s.write(n, text); err != nil {
			return r, err
		}
		// Not before every worker has its connections: on a busy machine that takes a while.
		if r.Files[0] == 0 && n >= s.Changes/10 && s.answers.Whole.Load() >= 4*workers {
			r.Memory[0], r.Files[0] = memory(s.gateway.PID()), files(s.gateway.PID())
		}
		if n%200 == 0 {
			s.progress(fmt.Sprintf("%d changes, %d answers, %d failed", n, s.answers.Whole.Load(), s.answers.Failed.Load()))
		}
		<-tick.C
	}
	// The last change was made one tick ago.
	written := time.Now().Add(-s.Every)
	if err := rig.Until(ctx, patience, "the last version is not used", func() bool { return s.inUse(s.Changes) }); err != nil {
		return r, err
	}
	r.Settled = time.Since(written)
	r.Memory[1], r.Files[1] = memory(s.gateway.PID()), files(s.gateway.PID())
	r.Loaded, r.Refused = s.reloads("ok"), s.reloads("error")
	err := s.poison(ctx, &r)
	return r, err
}

// poison lets each poison stay until it is refused, and wants the version before it
// to be used all the time.
func (s *scenario) poison(ctx context.Context, r *Result) error {
	for i, p := range poisons(s.upstream) {
		before := s.reloads("error")
		if err := s.write(i, p.text); err != nil {
			return err
		}
		err := rig.Until(ctx, patience, p.name+" is not refused", func() bool { return s.reloads("error") > before })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || !s.inUse(s.Changes) {
			r.Unrefused = append(r.Unrefused, p.name)
		}
	}
	return nil
}

// write puts a version in place, in one of the two ways that editors have.
func (s *scenario) write(n int, text string) error {
	if text != "" {
		text = s.gateway.Head + text
	}
	if n%2 == 0 {
		return os.WriteFile(s.gateway.Config, []byte(text), 0o600)
	}
	next := s.gateway.Config + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.gateway.Config)
}
