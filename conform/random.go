package conform

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Random describes a run of random dialogues.
type Random struct {
	Seed     uint64
	N        int       // dialogues; each is played in every pair of dialects
	First    int       // the index of the first dialogue
	Only     string    // only pairs CLIENT>UPSTREAM that contain this text
	Shrink   bool      // reduce the first failure of each kind and pair
	Progress io.Writer // nil for none
}

// RandomFailure is a kind of failure in a pair of dialects.
type RandomFailure struct {
	Kind     string  `json:"kind"`
	Client   Dialect `json:"client"`
	Upstream Dialect `json:"upstream"`
	Stream   bool    `json:"stream"` // of the first
	Count    int     `json:"count"`
	Index    int     `json:"index"` // of the first dialogue
	Text     string  `json:"text"`
	Bytes    string  `json:"bytes"`           // of the reduced dialogue
	Known    string  `json:"known,omitempty"` // why it does not fail the run
}

// RandomReport is the result of a run.
type RandomReport struct {
	Seed      uint64          `json:"seed"`
	Dialogues int             `json:"dialogues"`
	Played    int             `json:"played"` // dialogues times pairs
	Exchanges int             `json:"exchanges"`
	Seconds   float64         `json:"seconds"`
	Failures  []RandomFailure `json:"failures"`
}

// Failed returns the number of failures that are not known.
func (r *RandomReport) Failed() int {
	n := 0
	for _, f := range r.Failures {
		if f.Known == "" {
			n += f.Count
		}
	}
	return n
}

// groupKey is a kind of failure in a pair.
type groupKey struct {
	kind             string
	client, upstream Dialect
}

// randomRun collects the failures of all players.
type randomRun struct {
	runner *Runner
	opts   Random
	began  time.Time

	mu     sync.Mutex
	next   int
	report RandomReport
	groups map[groupKey]*RandomFailure
	told   time.Time
}

// players is the number of dialogues that are played at once.
const players = 12

// Random plays random dialogues in all pairs that the target serves.
func (r *Runner) Random(ctx context.Context, o Random) (*RandomReport, error) {
	r.dial()
	run := &randomRun{runner: r, opts: o, began: time.Now(), groups: map[groupKey]*RandomFailure{}}
	run.report = RandomReport{Seed: o.Seed, Dialogues: o.N, Failures: []RandomFailure{}}
	var wait sync.WaitGroup
	workers := players
	if !r.Target.AnyModel {
		workers = 1
	}
	for i := range workers {
		y := &player{runner: r}
		if r.Target.AnyModel {
			y.model = fmt.Sprintf("up-%d", i)
		}
		wait.Go(func() { run.work(ctx, y) })
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	run.report.Seconds = time.Since(run.began).Seconds()
	if o.Shrink {
		run.shrink(ctx)
	}
	for _, g := range run.groups {
		run.report.Failures = append(run.report.Failures, *g)
	}
	slices.SortFunc(run.report.Failures, func(a, b RandomFailure) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Upstream, b.Upstream))
	})
	return &run.report, ctx.Err()
}

func (n *randomRun) work(ctx context.Context, y *player) {
	for ctx.Err() == nil {
		n.mu.Lock()
		index := n.opts.First + n.next
		n.next++
		n.mu.Unlock()
		if index >= n.opts.First+n.opts.N {
			return
		}
		d := newDialogue(n.opts.Seed, uint64(index))
		for _, cell := range n.cells(index) {
			y.mode(n.opts.Seed, index, cell)
			n.take(index, cell, y.play(ctx, d, cell))
		}
	}
}

// cells returns the cells in which a dialogue is played: all pairs, each in one mode.
func (n *randomRun) cells(index int) []Cell {
	var out []Cell
	for i, client := range Dialects() {
		for j, upstream := range Dialects() {
			d := newDice(n.opts.Seed+uint64(i), uint64(index)*16+uint64(j))
			cell := Cell{client, upstream, d.chance(2)}
			if n.runner.Target.Serves(cell) && strings.Contains(string(client)+">"+string(upstream), n.opts.Only) {
				out = append(out, cell)
			}
		}
	}
	return out
}

// mode decides whether requests are repeated, by the seed and the index.
func (y *player) mode(seed uint64, index int, c Cell) {
	d := newDice(seed^0x9e3779b97f4a7c15, uint64(index)*31+uint64(len(c.String())))
	y.twice, y.both = d.chance(6), d.chance(5)
}

// take counts the failures of a dialogue in a cell.
func (n *randomRun) take(index int, c Cell, p played) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report.Played++
	n.report.Exchanges += p.exchanges
	for _, f := range p.findings {
		key := groupKey{f.kind, c.Client, c.Upstream}
		g := n.groups[key]
		if g == nil || g.Index > index {
			count := 0
			if g != nil {
				count = g.Count
			}
			g = &RandomFailure{Kind: f.kind, Client: c.Client, Upstream: c.Upstream, Stream: c.Stream, Index: index, Text: f.text, Bytes: p.bytes, Count: count, Known: knownGap(f.kind, c)}
			n.groups[key] = g
		}
		g.Count++
	}
	if now := time.Now(); n.opts.Progress != nil && now.Sub(n.told) > 5*time.Second {
		n.told = now
		spent := now.Sub(n.began).Seconds()
		_, _ = fmt.Fprintf(n.opts.Progress, "%d of %d dialogues, %d exchanges (%.0f/s), %d kinds of failures\n", n.report.Played/max(1, len(n.cells(0))), n.opts.N, n.report.Exchanges, float64(n.report.Exchanges)/max(spent, 0.001), len(n.groups))
	}
}

// shrink reduces the first dialogue of each kind and pair that is not known.
func (n *randomRun) shrink(ctx context.Context) {
	y := &player{runner: n.runner}
	if n.runner.Target.AnyModel {
		y.model = "up-small"
	}
	for _, g := range n.groups {
		if ctx.Err() != nil {
			return
		}
		if g.Known != "" {
			continue
		}
		cell := Cell{g.Client, g.Upstream, g.Stream}
		y.mode(n.opts.Seed, g.Index, cell)
		_, p := y.shrink(ctx, newDialogue(n.opts.Seed, uint64(g.Index)), cell, g.Kind)
		for _, f := range p.findings {
			if f.kind == g.Kind {
				g.Text, g.Bytes = f.text, p.bytes
				break
			}
		}
	}
}

// WriteText writes the failures with their bytes and a summary.
func (r *RandomReport) WriteText(w io.Writer) error {
	var b strings.Builder
	skipped := 0
	for _, f := range r.Failures {
		if f.Known != "" {
			skipped += f.Count
			fmt.Fprintf(&b, "skipped %s %s>%s %d times: %s\n", f.Kind, f.Client, f.Upstream, f.Count, f.Known)
			continue
		}
		mode := "whole"
		if f.Stream {
			mode = "stream"
		}
		fmt.Fprintf(&b, "\nFAIL %s %s>%s %d times, first in dialogue %d (%s)\n%s\n\n%s\n", f.Kind, f.Client, f.Upstream, f.Count, f.Index, mode, f.Text, f.Bytes)
	}
	kinds := map[string]int{}
	for _, f := range r.Failures {
		if f.Known == "" {
			kinds[f.Kind] += f.Count
		}
	}
	for _, f := range r.Failures {
		if f.Known == "" {
			fmt.Fprintf(&b, "%6d  %s>%s  %s\n", f.Count, f.Client, f.Upstream, f.Kind)
		}
	}
	fmt.Fprintf(&b, "\nseed %d: %d dialogues, %d played in pairs, %d exchanges in %.1f s (%.0f/s)\n", r.Seed, r.Dialogues, r.Played, r.Exchanges, r.Seconds, float64(r.Exchanges)/max(r.Seconds, 0.001))
	fmt.Fprintf(&b, "%d failures of %d kinds, %d of known gaps\n", r.Failed(), len(kinds), skipped)
	_, err := io.WriteString(w, b.String())
	return err
}
