package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

const (
	memoryRuns     = 3
	memoryDuration = 30 * time.Second
	largeClients   = 48
	largeBody      = 1 << 20
	smallClients   = 300
	memoryWait     = 20 * time.Second // until a client gives up
)

// runSmallMemory runs the gateway in memory cgroups that are too small for its load. It
// must refuse requests and not be killed by the system. For comparison it runs without
// the memory limit that the gateway sets for the Go runtime.
func runSmallMemory(ctx context.Context, r *rig) {
	for _, size := range []int64{64 << 20, 128 << 20} {
		name := fmt.Sprintf("memory/%dMB", size>>20)
		if !r.Wants(name) {
			continue
		}
		began := time.Now()
		group, err := newCgroup(size)
		if err != nil {
			r.Skip(name, "no memory cgroup: "+err.Error())
			continue
		}
		var load []testrig.Sample
		killed, killedWithout, peak := 0, 0, 0.0
		for run := range memoryRuns {
			with := r.loadMemory(ctx, group)
			without := r.loadMemory(ctx, group, "GOMEMLIMIT=off")
			load, peak = append(load, with.load...), max(peak, with.peak)
			killed, killedWithout = killed+with.killed, killedWithout+without.killed
			r.Progress("%s, run %d: killed %d, without the runtime's limit %d", name, run+1, with.killed, without.killed)
		}
		testrig.NoError(group.remove())
		odd := testrig.Pick(load, func(s testrig.Sample) bool { return !s.Good() && !s.Refused() })
		r.Check(name, fmt.Sprintf("%d runs of %v: %d OOM kills, %d served, %d refused, resident up to %.0f MB; with GOMEMLIMIT=off %d of %d were killed", memoryRuns, memoryDuration, killed,
			testrig.Count(load, testrig.Sample.Good), testrig.Count(load, testrig.Sample.Refused), peak/(1<<20), killedWithout, memoryRuns), began,
			testrig.When(killed > 0, "the gateway was OOM-killed in %d of %d runs", killed, memoryRuns),
			testrig.Unless(testrig.Count(load, testrig.Sample.Refused) > 0, "nothing was refused"),
			testrig.Unless(testrig.Count(load, testrig.Sample.Good) > 0, "nothing was served"),
			example(odd, "requests were neither served nor refused"))
	}
}

// memoryRun is the result of one run in a cgroup.
type memoryRun struct {
	load   []testrig.Sample
	killed int
	peak   float64 // resident bytes
}

// loadMemory runs the gateway in the cgroup, with large bodies and many connections,
// until the end of the run or of the gateway.
func (r *rig) loadMemory(ctx context.Context, group cgroup, env ...string) (m memoryRun) {
	c := &config{env: env, before: group.enter()}
	r.target(c, "large", testrig.Chat, testrig.AnswerAfter("good", 300*time.Millisecond))
	r.target(c, "small", testrig.Chat, testrig.AnswerAfter("good", time.Second))
	before := group.kills()
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
		testrig.Keep(running, largeClients, memoryDuration, send(testrig.Query{Model: "large", Prompt: prompt}))
	})
	wg.Go(func() {
		testrig.Keep(running, smallClients, memoryDuration, send(testrig.Query{Model: "small", Stream: true}))
	})
	wg.Wait()
	m.load, m.peak, m.killed = load.List(), testrig.ProcessMemory(g.PID(), "VmHWM"), group.kills()-before
	if g.Alive() == nil {
		testrig.Must(g.stop(ctx))
	}
	r.up.CloseConnections()
	return m
}

// cgroup is the folder of a memory cgroup, version 1 or 2.
type cgroup struct {
	dir    string
	events string // the file that counts OOM kills
}

// newCgroup creates a memory cgroup. It needs root, or a cgroup file system that is
// writable in another way.
func newCgroup(limit int64) (cgroup, error) {
	g := cgroup{filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("isogloss-chaos-%d", os.Getpid())), "memory.oom_control"}
	most, swap := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g.dir, g.events = filepath.Join("/sys/fs/cgroup", filepath.Base(g.dir)), "memory.events"
		most, swap = "memory.max", "memory.swap.max"
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return cgroup{}, err
	}
	if err := os.WriteFile(filepath.Join(g.dir, most), fmt.Append(nil, limit), 0o644); err != nil {
		_ = g.remove() // it is empty
		return cgroup{}, err
	}
	if g.events == "memory.events" {
		limit = 0 // version 1 counts memory and swap together
	}
	_ = os.WriteFile(filepath.Join(g.dir, swap), fmt.Append(nil, limit), 0o644) // a kernel without swap accounting lacks the file
	return g, nil
}

// enter returns the command with which a shell moves itself into the cgroup.
func (g cgroup) enter() string { return fmt.Sprintf("echo $$ > %s/cgroup.procs", g.dir) }

// kills returns how many processes of the cgroup the system has killed.
func (g cgroup) kills() int {
	text, _ := os.ReadFile(filepath.Join(g.dir, g.events)) // a missing file is 0, and then the gateway has ended without a reason
	return int(testrig.Number(string(text), "oom_kill "))
}

// remove removes the cgroup, which must have no process any more.
func (g cgroup) remove() error { return os.Remove(g.dir) }
