package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	memoryRuns     = 3
	memoryDuration = 30 * time.Second
	// More clients send large bodies than the gateway has memory for, and each body is held
	// for a while: most of them wait longer than the gateway lets them.
	largeClients = 48 // for each 64 MB
	largeBody    = 1 << 20
	largeHeld    = 2 * time.Second
	smallClients = 300
	memoryWait   = 20 * time.Second // until a client gives up
)

// runSmallMemory runs the gateway in memory cgroups that are too small for its load. It
// must refuse requests and not be killed by the system. For comparison it runs without
// the memory limit that the gateway sets for the Go runtime.
func runSmallMemory(ctx context.Context, r *rig) {
	for _, size := range []int{64 << 20, 128 << 20} {
		name := fmt.Sprintf("memory/%dMB", size>>20)
		if !r.Wants(name) {
			continue
		}
		began := time.Now()
		with, err := r.loadMemory(ctx, size)
		if err != nil {
			r.Skip(name, "no memory cgroup: "+err.Error())
			continue
		}
		without := testrig.Must(r.loadMemory(ctx, size, "GOMEMLIMIT=off"))
		served, refused := testrig.Count(with.load, testrig.Sample.Good), testrig.Count(with.load, testrig.Sample.Refused)
		odd := testrig.Pick(with.load, func(s testrig.Sample) bool { return !s.Good() && !s.Refused() })
		r.Check(name, fmt.Sprintf("%d runs of %v: %d OOM kills, %d served, %d refused, %.0f MB at most; with GOMEMLIMIT=off %d of %d runs were killed", memoryRuns, memoryDuration,
			with.killed, served, refused, with.peak/(1<<20), without.killed, memoryRuns), began,
			testrig.When(with.killed > 0, "the gateway was OOM-killed in %d of %d runs", with.killed, memoryRuns),
			testrig.Unless(served > 0 && refused > 0, "%d requests were served and %d refused, want some of each", served, refused),
			example(odd, "requests were neither served nor refused"))
	}
}

// memoryRun is the result of some runs in a cgroup.
type memoryRun struct {
	load   []testrig.Sample
	killed int
	peak   float64 // bytes of the cgroup
}

// loadMemory runs the gateway some times in a cgroup. The error says why there is no
// cgroup.
func (r *rig) loadMemory(ctx context.Context, size int, env ...string) (m memoryRun, err error) {
	group, err := newCgroup(size)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, group.remove()) }()
	for range memoryRuns {
		m.load = append(m.load, r.loadOnce(ctx, group, env)...)
	}
	m.killed, m.peak = int(group.number(group.events, "oom_kill ")), group.number(group.peak, "")
	return m, nil
}

// loadOnce sends large bodies on many connections, until the end of the run or of the
// gateway.
func (r *rig) loadOnce(ctx context.Context, group cgroup, env []string) []testrig.Sample {
	c := &config{env: env, before: group.enter()}
	r.target(c, "large", testrig.Chat, testrig.AnswerAfter("good", largeHeld))
	r.target(c, "small", testrig.Chat, testrig.AnswerAfter("good", time.Second))
	g := testrig.Must(r.start(ctx, c))
	defer g.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-g.Ended:
			stop()
		case <-running.Done():
		}
	}()
	prompt := strings.Repeat("large ", largeBody/6)
	var load testrig.History[testrig.Sample]
	send := func(q testrig.Query) func(int) {
		return func(int) {
			ctx, cancel := context.WithTimeout(ctx, memoryWait)
			defer cancel()
			s := g.client.Measure(ctx, "", q)
			load.Add(s)
			if s.Refused() {
				testrig.Pause(running, 100*time.Millisecond)
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		testrig.Keep(running, group.size/(64<<20)*largeClients, memoryDuration, send(testrig.Query{Model: "large", Prompt: prompt}))
	})
	wg.Go(func() {
		testrig.Keep(running, smallClients, memoryDuration, send(testrig.Query{Model: "small", Stream: true}))
	})
	wg.Wait()
	if g.Alive() == nil {
		testrig.Must(g.stop(ctx))
	}
	r.up.CloseConnections()
	return load.List()
}

// cgroup is a memory cgroup, version 1 or 2.
type cgroup struct {
	size                           int
	dir, limit, swap, events, peak string // the folder and its files
}

// newCgroup creates a memory cgroup. It needs the rights to write to the root of the
// cgroup file system.
func newCgroup(size int) (cgroup, error) {
	name, swap := fmt.Sprintf("isogloss-chaos-%d", os.Getpid()), size // version 1 counts memory and swap together
	g := cgroup{size, "/sys/fs/cgroup/memory/" + name, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control", "memory.max_usage_in_bytes"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g, swap = cgroup{size, "/sys/fs/cgroup/" + name, "memory.max", "memory.swap.max", "memory.events", "memory.peak"}, 0
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return cgroup{}, err
	}
	if err := os.WriteFile(filepath.Join(g.dir, g.limit), fmt.Append(nil, size), 0o644); err != nil {
		return cgroup{}, errors.Join(err, g.remove())
	}
	_ = os.WriteFile(filepath.Join(g.dir, g.swap), fmt.Append(nil, swap), 0o644) // a kernel without swap accounting lacks the file
	return g, nil
}

// enter returns the command with which a shell moves itself into the cgroup.
func (g cgroup) enter() string { return fmt.Sprintf("echo $$ > %s/cgroup.procs", g.dir) }

// number reads a number from a file of the cgroup, after a name at the beginning of a line.
func (g cgroup) number(file, name string) float64 {
	return testrig.Number(string(testrig.Must(os.ReadFile(filepath.Join(g.dir, file)))), name)
}

// remove removes the cgroup, which must have no processes.
func (g cgroup) remove() error { return os.Remove(g.dir) }
