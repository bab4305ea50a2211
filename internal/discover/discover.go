package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxWorkers = 100_000 // of one source
	atMost     = 10      // publications a second
	pace       = time.Second / atMost
	headStart  = 500 * time.Millisecond // for the sources, before the disk is believed
)

// Options says where workers are looked for and what they have to obey.
type Options struct {
	Sources   []Source
	Networks  []netip.Prefix // where workers may be; required
	Protocols []string       // that workers may speak; default: openai-chat, openai-responses, anthropic, gemini
	Snapshot  string         // file for the newest snapshot; empty: it is not kept
	Confirm   time.Duration  // how long workers are kept that vanish together; default 30 s
	Window    time.Duration  // how far apart they may vanish and still be together; default 10 s
	Logger    *slog.Logger   // default: nothing is logged
}

func (o Options) withDefaults() (Options, error) {
	o.Confirm = cmp.Or(o.Confirm, 30*time.Second)
	o.Window = cmp.Or(o.Window, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Protocols) == 0 {
		o.Protocols = []string{"openai-chat", "openai-responses", "anthropic", "gemini"}
	}
	if len(o.Networks) == 0 {
		return o, errors.New("networks: none is given; name those that workers are in, for example 10.0.0.0/8")
	}
	var err error
	if o.Networks, err = plain(o.Networks); err != nil {
		return o, err
	}
	names := map[string]bool{}
	for _, s := range o.Sources {
		n := s.Name()
		if n == "" || strings.Contains(n, "/") || names[n] {
			return o, fmt.Errorf("sources: the name %q is empty, has a slash or is taken; give every source its own", n)
		}
		names[n] = true
	}
	return o, nil
}

// Discovery makes one snapshot of what all its sources say.
type Discovery struct {
	options Options
	rules   rules
	status  atomic.Pointer[Status]
	refused atomic.Int64
}

// Status is for metrics and the admin API.
type Status struct {
	Snapshot Snapshot
	Kept     int      // of its workers: gone at the source, and not yet believed to be
	Refused  int64    // workers that were refused since the start
	Silent   []string // sources that do not answer
}

// New checks the options. It asks no source.
func New(o Options) (*Discovery, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	d := &Discovery{options: o, rules: rules{networks: o.Networks, protocols: o.Protocols}}
	d.status.Store(&Status{Snapshot: Snapshot{Stale: true}})
	return d, nil
}

// Status is what was published last, and who was refused by now.
func (d *Discovery) Status() Status {
	s := *d.status.Load()
	s.Refused = d.refused.Load()
	return s
}

// Run publishes until the context ends: first within half a second, with what is
// on the disk for sources that have not answered by then, and after that whenever
// something has changed, at most ten times a second. publish is called by one
// goroutine at a time and should return soon.
func (d *Discovery) Run(ctx context.Context, publish func(Snapshot)) {
	disk := newDisk(d.options.Snapshot, d.options.Logger)
	defer disk.saveNewest()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	running.Go(func() { disk.run(ctx) })
	l := newLoop(d, disk, publish)
	changes := make(chan told)
	for _, src := range d.options.Sources {
		running.Go(func() {
			src.Watch(ctx, func(c Change) {
				select {
				case changes <- told{src.Name(), c}:
				case <-ctx.Done():
				}
			})
		})
	}
	l.run(ctx, changes)
}
