package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// The clients are so many at any time, whatever the machine does besides, and
	// they begin in a rush: what memory that much work takes is taken then, and what
	// is added later is a leak.
	soakClients = 48
	rush        = 5 * time.Second
	soakRate    = 150 // requests a second, afterwards
	mostSlope   = 1e6 // bytes a minute
	// What is resident moves by some MB with the collector of garbage, which is more
	// than a short soak could tell from a leak. What is live does not.
	longSoak     = 10 * time.Minute
	strayRoutine = 10
	strayFile    = 5
)

// runSoak is R21: everything at once for a while, and nothing is left behind.
func runSoak(ctx context.Context, b *bench) error {
	began := time.Now()
	// What is kept of conversations has so little room that the rush fills it.
	s := &setup{top: []string{b.can.timeouts(limit), "limits: { conversations: 256KiB }"}, env: []string{"GOMEMLIMIT=256MiB"}}
	models := b.soakModels(s)
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	g.ask(ctx, chat, models[0], false)
	g.settle(b.up)
	before, err := g.vitals(ctx)
	if err != nil {
		return err
	}
	warm := min(b.soak/3, 5*time.Minute)
	b.progress("soak: %v, the first %v do not count", b.soak, warm)
	watch := make(chan [2][]point, 1)
	watching, stop := context.WithCancel(ctx)
	go func() { watch <- b.watch(watching, g, warm) }()
	keep(ctx, soakClients, rush, func(i int) { g.soakOnce(ctx, models, i) })
	keep(ctx, soakClients, b.soak-rush, paced(soakClients, soakRate, func(i int) { g.soakOnce(ctx, models, i) }))
	stop()
	seen := <-watch
	points, live := seen[0], seen[1]
	after, err := g.rest(ctx, b.up, before)
	if err != nil {
		return err
	}
	slope, resident := theilSen(live), theilSen(floors(points))
	b.check("soak/memory", fmt.Sprintf("live %+.2f MB/min, %.1f MB at the end; resident %+.2f MB/min, %.0f MB", slope/1e6, after.live/1e6, resident/1e6, after.rss/1e6), began,
		over(slope > mostSlope, "live memory grows by %.2f MB a minute, want at most %.0f", slope/1e6, mostSlope/1e6),
		over(b.soak >= longSoak && resident > mostSlope, "resident memory grows by %.2f MB a minute, want at most %.0f", resident/1e6, mostSlope/1e6))
	b.check("soak/goroutines", fmt.Sprintf("%.0f before, %.0f after", before.goroutines, after.goroutines), began,
		over(after.goroutines > before.goroutines+strayRoutine, "%.0f goroutines, before it were %.0f", after.goroutines, before.goroutines))
	b.check("soak/descriptors", fmt.Sprintf("%.0f before, %.0f after", before.descriptors, after.descriptors), began,
		over(after.descriptors > before.descriptors+strayFile, "%.0f descriptors, before it were %.0f", after.descriptors, before.descriptors))
	left := b.up.openNow()
	b.check("soak/upstream", fmt.Sprintf("%d requests are still open", left), began, over(left > 0, "%d requests are still open at the upstream", left))
	took, err := g.stop()
	b.check("soak/exit", took.Round(time.Millisecond).String(), began, over(err != nil || took > quickExit, "it ended after %v with %v", took, err))
	return nil
}

func over(is bool, format string, args ...any) string {
	if is {
		return fmt.Sprintf(format, args...)
	}
	return ""
}

// soakModels are a healthy model of each pair and every scenario, rescued or not.
func (b *bench) soakModels(s *setup) []string {
	var names []string
	for i, p := range allPairs(false) {
		tag := fmt.Sprintf("fit%d", i)
		b.up.add(tag, playAfter(10*time.Millisecond))
		name := fmt.Sprintf("fit%d", i)
		s.model(name, []string{s.provider(tag, p.upstream, b.up.url(tag, p.upstream))})
		names = append(names, name)
	}
	for i, sc := range scenarios() {
		for j, d := range dialects() {
			c := &boardCase{scenario: sc, pair: pair{chat, d}, mode: streamed, both: (i+j)%2 == 0}
			if !sc.applies(c.pair, streamed) {
				continue
			}
			c.place(b.up, s, 1000+i*10+j)
			names = append(names, c.model)
		}
	}
	return names
}

// soakOnce sends one request: mostly to healthy models, in any dialect, streamed
// or not, and one client in ten goes away early.
func (g *gateway) soakOnce(ctx context.Context, models []string, i int) {
	d := dialects()[i%4]
	model := models[i%16]
	if i%5 == 0 {
		model = models[16+(i/5)%(len(models)-16)]
	}
	most := 30 * time.Second
	if i%10 == 3 {
		most = time.Duration(rand.IntN(40)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	g.ask(ctx, d, model, i%3 != 0)
}

// settle closes what is idle on both sides.
func (g *gateway) settle(u *upstream) {
	g.client.CloseIdleConnections()
	u.hangUp()
	time.Sleep(500 * time.Millisecond)
}

// rest waits until the process is as it was, at most ten seconds.
func (g *gateway) rest(ctx context.Context, u *upstream, before vitals) (after vitals, err error) {
	for range 10 {
		g.settle(u)
		if after, err = g.vitals(ctx); err != nil {
			return after, err
		}
		if after.goroutines <= before.goroutines && after.descriptors <= before.descriptors {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	return after, nil
}

// openNow is how many requests all targets have open.
func (u *upstream) openNow() (n int64) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, t := range u.targets {
		n += t.open.Load()
	}
	return n
}

// point is one look at the memory.
type point struct{ minutes, bytes float64 }

// watch looks twice a second, once the warm-up is over, at what is resident and at
// what is live of it.
func (b *bench) watch(ctx context.Context, g *gateway, warm time.Duration) (all [2][]point) {
	began := time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for said := 0; ; {
		select {
		case <-ctx.Done():
			return all
		case <-tick.C:
		}
		v, err := g.vitals(ctx)
		if err != nil {
			continue // the end of the run, or a gateway that the judge will find dead
		}
		if gone := time.Since(began); int(gone.Seconds())/30 > said {
			said = int(gone.Seconds()) / 30
			b.progress("soak: %.0f MB, %.1f of them live, %.0f goroutines, %.0f descriptors", v.rss/1e6, v.live/1e6, v.goroutines, v.descriptors)
		}
		if since := time.Since(began); since > warm {
			all[0] = append(all[0], point{since.Minutes(), v.rss})
			all[1] = append(all[1], point{since.Minutes(), v.live})
		}
	}
}

// paced makes clients pause, so that all of them together keep to a rate.
func paced(clients int, rate float64, do func(int)) func(int) {
	slot := time.Duration(float64(clients) / rate * float64(time.Second))
	return func(i int) {
		began := time.Now()
		do(i)
		time.Sleep(slot - time.Since(began))
	}
}

// floors are the least of each twenty looks: what lies above is garbage that waits
// for its collector.
func floors(points []point) []point {
	var all []point
	for chunk := range slices.Chunk(points, 20) {
		all = append(all, slices.MinFunc(chunk, func(a, b point) int { return cmp.Compare(a.bytes, b.bytes) }))
	}
	return all
}

// theilSen is the median of the slopes of all pairs of points: a single peak does
// not move it.
func theilSen(points []point) float64 {
	step := max(1, len(points)/400)
	var slopes []float64
	for i := 0; i < len(points); i += step {
		for j := i + step; j < len(points); j += step {
			slopes = append(slopes, (points[j].bytes-points[i].bytes)/(points[j].minutes-points[i].minutes))
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2]
}
