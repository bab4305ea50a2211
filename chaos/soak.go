package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	// The number of clients is constant, and they begin with a rush: the memory that
	// this much work needs is allocated then, and what is added later is a leak.
	soakClients = 48
	rush        = 5 * time.Second
	soakRate    = 150 // requests a second after the rush
	mostSlope   = 1e6 // bytes a minute, or for as many requests as are sent in one
	// Of what a single reading without open requests finds, this much can be chance: tables
	// that double, stacks, what the upstream's connections hold.
	chance = 2.5e6
	// What chance adds to both halves of a soak is less: two steps of it that follow each other.
	chanceInHalf = 1e6
	// In a short soak the memory without open requests is compared. The slopes while
	// requests are open are those of the machine's load, too.
	longSoak      = 10 * time.Minute
	strayRoutines = 10
	strayFiles    = 5
)

// runSoak plays r21: everything at once for a while, and nothing leaks.
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
	rests := []rest{{0, g.resting(ctx, models[0])}}
	var requests int64
	var seen [2][]point
	var after vitals
	for measured := time.Now(); len(rests) < 3; rests = append(rests, rest{requests, g.resting(ctx, models[0])}) {
		watched := make(chan [2][]point, 1)
		watching, stop := context.WithCancel(ctx)
		go func() { watched <- r.watch(watching, g, measured) }()
		requests += g.soakFor(ctx, models, (r.soak-warm)/2, soakRate)
		stop()
		for i, points := range <-watched {
			seen[i] = append(seen[i], points...)
		}
		after = r.settle(ctx, g, before)
	}
	if after.goroutines == 0 || after.files == 0 || after.rss == 0 || after.collected == 0 {
		testrig.NoError(errors.New("the metrics lack go_goroutines, process_open_fds, process_resident_memory_bytes or go_memstats_last_gc_time_seconds"))
	}
	live, resident := theilSen(seen[1]), theilSen(floors(seen[0]))
	long := r.soak >= longSoak
	r.Figures("soak/memory", fmt.Sprintf("without open requests %.2f MB after the warm-up, %.2f MB after %d more requests and %.2f MB after %d; while they are open %+.2f MB/min live and %+.2f MB/min resident, %.0f MB",
		rests[0].bytes/1e6, rests[1].bytes/1e6, rests[1].requests, rests[2].bytes/1e6, rests[2].requests, live/1e6, resident/1e6, after.rss/1e6), began, cpu, nil,
		leak(rests),
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

// rest is the live memory without open requests after so many requests.
type rest struct {
	requests int64
	bytes    float64
}

// leak returns a problem if the memory without open requests grows by more than chance and
// what the requests may leave: from the first rest to the last, or, where less is found
// since one half is the control of the other, in every stretch between two rests. What grows
// once, like a cache that fills, grows in one of them.
func leak(rests []rest) string {
	first, last := rests[0], rests[len(rests)-1]
	all, most := last.bytes-first.bytes, mayLeave(first, last)+chance
	every := true
	for i, b := range rests[1:] {
		a := rests[i]
		every = every && b.bytes-a.bytes > max(mayLeave(a, b), chanceInHalf)
	}
	n := float64(max(last.requests-first.requests, 1))
	return cmp.Or(
		testrig.When(all > most, "live memory without open requests grows by %.2f MB, %.0f bytes a request, want at most %.2f MB", all/1e6, all/n, most/1e6),
		testrig.When(every, "live memory without open requests grows by %.2f MB, %.0f bytes a request, and in each half by more than chance and than a minute's worth of requests may leave, %.0f MB", all/1e6, all/n, mostSlope/1e6))
}

// mayLeave returns how many bytes the requests between two rests may leave.
func mayLeave(a, b rest) float64 {
	return mostSlope * float64(b.requests-a.requests) / (soakRate * 60)
}

// resting returns the live memory without open requests: the least that some collections
// find while a few requests are sent at a time. A page of the metrics is megabytes, and a
// collection that runs while one is made counts them, so only those between two pages do.
func (g *gateway) resting(ctx context.Context, model string) float64 {
	const collections, rounds, requests, clients = 8, 60, 60, 4
	least := math.Inf(1)
	for n, round := 0, 0; n < collections && round < rounds && ctx.Err() == nil; round++ {
		began := time.Now().Add(50 * time.Millisecond) // a collection that the last page began has ended
		var wait sync.WaitGroup
		for range clients {
			wait.Go(func() {
				for range requests {
					g.send(ctx, testrig.Chat, model, false)
				}
			})
		}
		wait.Wait()
		ended := time.Now()
		v := g.vitals(ctx)
		if v.collected > seconds(began) && v.collected < seconds(ended) {
			n, least = n+1, min(least, v.live)
		}
	}
	testrig.NoError(ctx.Err())
	if math.IsInf(least, 1) {
		testrig.NoError(errors.New("no collection between two pages of the metrics, by go_memstats_last_gc_time_seconds"))
	}
	return least
}

// seconds returns a time as the metrics have it.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

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
type vitals struct{ rss, live, goroutines, files, collected float64 }

func (g *gateway) vitals(ctx context.Context) vitals {
	page := g.Metrics(ctx)
	metric := func(name string) float64 { return testrig.Number(page, name+" ") }
	kept := metric("go_memstats_next_gc_bytes") / (1 + metric("go_gc_gogc_percent")/100) // by the last collection, about
	return vitals{rss: metric("process_resident_memory_bytes"), live: kept, goroutines: metric("go_goroutines"), files: metric("process_open_fds"), collected: metric("go_memstats_last_gc_time_seconds")}
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
func (r *rig) watch(ctx context.Context, g *gateway, began time.Time) (all [2][]point) {
	for printed := int(time.Since(began).Seconds()) / 30; ; {
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
