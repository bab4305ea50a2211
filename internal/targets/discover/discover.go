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

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

const (
	maxWorkers = 100_000 // maximum number of workers of one source
	atMost     = 10      // maximum publications a second
	pace       = time.Second / atMost
	headStart  = 500 * time.Millisecond // how long to wait for the sources before using the snapshot on disk
)

// Options configures a Discovery.
type Options struct {
	Sources   []Source
	Networks  []netip.Prefix // allowed addresses of workers; required
	Models    []string       // models that workers may offer, by name or prefix with "*"; default: all
	Protocols []string       // allowed protocols; default: openai-chat, openai-responses, anthropic, gemini
	Gateways  *Gateways      // counts the gateways that share the workers' capacity; nil: each uses all of it
	Snapshot  string         // file for the latest snapshot; empty: none
	Confirm   time.Duration  // how long to keep workers that disappear together; default 30 s
	Window    time.Duration  // workers that disappear within this time disappear together; default 10 s
	Logger    *slog.Logger   // default: no log
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

// Discovery merges the workers of all its sources into one snapshot.
type Discovery struct {
	options Options
	rules   rules
	status  atomic.Pointer[Status]
	refused atomic.Int64
}

// Status is the state of a Discovery, for metrics and the admin API.
type Status struct {
	Snapshot Snapshot
	Kept     int      // published workers that their source no longer has
	Refused  int64    // workers rejected since the start
	Silent   []string // sources that do not respond
}

// New validates the options. It contacts no source.
func New(o Options) (*Discovery, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	d := &Discovery{options: o, rules: rules{networks: o.Networks, protocols: o.Protocols, models: o.Models}}
	d.status.Store(&Status{Snapshot: Snapshot{Stale: true}})
	return d, nil
}

// Status returns the state at the last publication, with the current number of rejected
// workers.
func (d *Discovery) Status() Status {
	s := *d.status.Load()
	s.Refused = d.refused.Load()
	return s
}

// Run calls publish until the context ends: first within half a second, with the
// snapshot on disk for sources that have not responded by then, and then after each
// change, at most ten times a second. Calls of publish do not overlap. It should return
// quickly.
func (d *Discovery) Run(ctx context.Context, publish func(Snapshot)) {
	disk := newDisk(d.options.Snapshot, d.options.Logger)
	defer disk.saveNewest()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	keep := func(f func()) { running.Go(func() { crash.Keep(ctx, d.options.Logger, f) }) }
	keep(func() { disk.run(ctx) })
	l := newLoop(d, disk, publish)
	changes := make(chan sourceChange)
	for _, src := range d.options.Sources {
		keep(func() {
			src.Watch(ctx, func(c Change) {
				select {
				case changes <- sourceChange{src.Name(), c}:
				case <-ctx.Done():
				}
			})
		})
	}
	shares := make(chan Share)
	if g := d.options.Gateways; g != nil {
		keep(func() { g.rotate(ctx, d) })
		keep(func() {
			g.watch(ctx, func(s Share) {
				select {
				case shares <- s:
				case <-ctx.Done():
				}
			})
		})
	}
	l.run(ctx, changes, shares)
}
