package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

const (
	// The number of clients is constant, and they begin with a rush: the memory that
	// this much work needs is allocated then, and what is added later is a leak.
	soakClients = 48
	rush        = 5 * time.Second
	soakRate    = 150 // requests a second after the rush
	mostSlope   = 1e6 // bytes a minute, or for as many requests as are sent in one
	// In a short soak the memory without open requests is compared. The slopes while
	// requests are open are those of the machine's load, too.
	longSoak      = 10 * time.Minute
	strayRoutines = 10
	strayFiles    = 5
)

// runSoak is R21: everything at once for a while, and nothing leaks.
func runSoak(ctx context.Context, r *rig) {
	began, cpu := time.Now(), testrig.ReadCPUTime()
	testrig.NoError(r.up.ListenBroken())
	// The conversation store is so small that the rush fills it. With this GOGC the memory is
	// collected often.
	c := &config{top: []string{timeouts(limit), "limits: { conversations: 256KiB }", longDrain}, env: []string{"GOMEMLIMIT=256MiB", "GOGC=50"}}
	models := r.soakModels(c)
	g := testrig.Must(r.start(ctx, c))
	defer g.Close()
	g.send(ctx, testrig.Chat, models[0], false)
	before := r.settle(ctx, g, vitals{})
	warm := min(r.soak/3, 5*time.Minute)
	r.Progress("soak: %v, the first %v do not count", r.soak, warm)
	g.soakFor(ctx, models, rush, 0)
	g.soakFor(ctx, models, warm-rush, soakRate)
	r.settle(ctx, g, before)
	base := g.resting(ctx, models[0])
	watched := make(chan [2][]point, 1)
	watching, stop := context.WithCancel(ctx)
	go func() { watched <- r.watch(watching, g) }()
	requests := g.soakFor(ctx, models, r.soak-warm, soakRate)
	stop()
	seen := <-watched
	after := r.settle(ctx, g, before)
	if after.goroutines == 0 || after.files == 0 || after.rss == 0 || after.collections == 0 {
		testrig.NoError(errors.New("the metrics lack go_goroutines, process_open_fds, process_resident_memory_bytes or go_gc_duration_seconds_count"))
	}
	end := g.resting(ctx, models[0])
	// On a busy machine there are few requests, and the memory moves by more than they may leave.
	grown := (end - base) / max(float64(requests)/(soakRate*60), 0.5)
	live, resident := theilSen(seen[1]), theilSen(floors(seen[0]))
	long := r.soak >= longSoak
	r.Figures("soak/memory", fmt.Sprintf("without open requests %.2f MB after the warm-up and %.2f MB after %d more requests, %+.2f MB for a minute's worth; while they are open %+.2f MB/min live and %+.2f MB/min resident, %.0f MB",
		base/1e6, end/1e6, requests, grown/1e6, live/1e6, resident/1e6, after.rss/1e6), began, cpu, nil,
		testrig.When(grown > mostSlope, "live memory without open requests grows by %.2f MB for a minute's worth of requests, want at most %.0f", grown/1e6, mostSlope/1e6),
		testrig.When(long && live > mostSlope, "live memory grows by %.2f MB a minute, want at most %.0f", live/1e6, mostSlope/1e6),
		testrig.When(long && resident > mostSlope, "resident memory grows by %.2f MB a minute, want at most %.0f", resident/1e6, mostSlope/1e6))
	r.Check("soak/goroutines", fmt.Sprintf("%.0f before, %.0f after", before.goroutines, after.goroutines), began,
		testrig.When(after.goroutines > before.goroutines+strayRoutines, "%.0f goroutines, %.0f before", after.goroutines, before.goroutines))
	r.Check("soak/descriptors", fmt.Sprintf("%.0f before, %.0f after", before.files, after.files), began,
		testrig.When(after.files > before.files+strayFiles, "%.0f descriptors, %.0f before", after.files, before.files))
	var open int64
	closed := eventually(ctx, patience, func() bool { open = r.up.OpenRequests(); return open == 0 })
	r.Check("soak/upstream", fmt.Sprintf("%d requests are still open", open), began, testrig.Unless(closed, "%d requests are still open at the upstream", open))
	took, err := g.stop(ctx)
	r.Figures("soak/exit", took.Round(time.Millisecond).String(), began, cpu, []string{testrig.When(took > exitGoal, "%v, want at most %v", took, exitGoal)},
		testrig.Unless(err == nil, "it waits for more than open requests, or ended with %v", err))
}

// soakFor sends requests at a rate for a time, 0 means as fast as the clients can. It returns
// how many it has sent.
func (g *gateway) soakFor(ctx context.Context, models []string, during time.Duration, rate float64) int64 {
	var sent atomic.Int64
	slot := time.Duration(0)
	if rate > 0 {
		slot = time.Duration(soakClients / rate * float64(time.Second))
	}
	testrig.Keep(ctx, soakClients, during, func(i int) {
		next := time.Now().Add(slot)
		sent.Add(1)
		g.soakOnce(ctx, models, i)
		testrig.Pause(ctx, time.Until(next))
	})
	return sent.Load()
}

// resting returns the live memory without open requests: the least that some collections
// find while requests are sent one after the other.
func (g *gateway) resting(ctx context.Context, model string) float64 {
	const collections, requests = 8, 40
	least, last := math.Inf(1), 0.0
	for n := 0; n < collections && ctx.Err() == nil; {
		for range requests {
			g.send(ctx, testrig.Chat, model, false)
		}
		v := g.vitals(ctx)
		if v.collections == last {
			continue
		}
		if n++; last > 0 {
			least = min(least, v.live)
		}
		last = v.collections
	}
	return least
}

// soakModels adds a healthy model of each pair and every scenario, with a second target
// or without.
func (r *rig) soakModels(c *config) (names []string) {
	for i, p := range pairs(false) {
		names = append(names, fmt.Sprintf("healthy%d", i))
		r.target(c, names[i], p.upstream, testrig.AnswerAfter("good", 10*time.Millisecond))
	}
	for i, s := range scenarios() {
		if s.timeouts == timeouts(wideLimit) && r.soak < longSoak {
			continue // it takes a good part of a short soak
		}
		for j, d := range testrig.Dialects() {
			b := &boardCase{scenario: s, pair: pair{testrig.Chat, d}, mode: streamed, both: (i+j)%2 == 0}
			if s.applies(b.pair, streamed) {
				b.place(r.up, c, 1000+i*10+j)
				names = append(names, b.model)
			}
		}
	}
	return names
}

// soakOnce sends one request: mostly to healthy models, in any dialect, streaming or
// not, and one client in ten disconnects early.
func (g *gateway) soakOnce(ctx context.Context, models []string, i int) {
	model := models[i%16]
	if i%5 == 0 {
		model = models[16+(i/5)%(len(models)-16)]
	}
	most := patience
	if i%10 == 3 {
		most = time.Duration(rand.IntN(40)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	g.send(ctx, testrig.Dialects()[i%len(testrig.Dialects())], model, i%3 != 0)
}

// vitals are the resources that a process must not leak.
type vitals struct{ rss, live, goroutines, files, collections float64 }

func (g *gateway) vitals(ctx context.Context) vitals {
	page := g.Metrics(ctx)
	metric := func(name string) float64 { return testrig.Number(page, name+" ") }
	kept := metric("go_memstats_next_gc_bytes") / (1 + metric("go_gc_gogc_percent")/100) // by the last collection, about
	return vitals{rss: metric("process_resident_memory_bytes"), live: kept, goroutines: metric("go_goroutines"), files: metric("process_open_fds"), collections: metric("go_gc_duration_seconds_count")}
}

// settle closes idle connections on both sides until the process holds no more than
// before, and returns what it holds.
func (r *rig) settle(ctx context.Context, g *gateway, before vitals) (after vitals) {
	_ = testrig.Until(ctx, patience/4, "", func() bool {
		g.client.Close()
		r.up.CloseConnections()
		testrig.Pause(ctx, time.Second)
		after = g.vitals(ctx)
		return before.files == 0 || after.goroutines <= before.goroutines && after.files <= before.files
	})
	return after
}

// point is one reading of the memory.
type point struct{ minutes, bytes float64 }

// watch reads the resident and the live memory twice a second.
func (r *rig) watch(ctx context.Context, g *gateway) (all [2][]point) {
	began := time.Now()
	for printed := 0; ; {
		testrig.Pause(ctx, 500*time.Millisecond)
		if ctx.Err() != nil {
			return all
		}
		v, since := g.vitals(ctx), time.Since(began)
		if v.rss == 0 {
			continue // the end of the run, or a gateway that has died, which the checks find
		}
		if int(since.Seconds())/30 > printed {
			printed = int(since.Seconds()) / 30
			r.Progress("soak: %.0f MB, %.1f of them live, %.0f goroutines, %.0f descriptors", v.rss/1e6, v.live/1e6, v.goroutines, v.files)
		}
		all[0] = append(all[0], point{since.Minutes(), v.rss})
		all[1] = append(all[1], point{since.Minutes(), v.live})
	}
}

// floors returns the lowest of each twenty readings: what lies above is garbage that is
// not collected yet.
func floors(points []point) []point {
	var all []point
	for chunk := range slices.Chunk(points, 20) {
		all = append(all, slices.MinFunc(chunk, func(a, b point) int { return cmp.Compare(a.bytes, b.bytes) }))
	}
	return all
}

// theilSen returns the median of the slopes of all pairs of points, which a single peak
// does not move.
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
