package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

const (
	inSync    = 5 * time.Second // after etcd is back
	newWorker = time.Second
	lease     = 5 * time.Second
	leaseTick = time.Second // etcd checks for expired leases twice a second
)

// runDiscovery is R7: discovered workers are served whatever happens to etcd.
func runDiscovery(ctx context.Context, s *stage) {
	began := time.Now()
	k := s.newKey(ctx, "r7", limits{})
	for _, who := range []string{"w1", "w2", "w3"} {
		s.put(ctx, worker, who)
	}
	kill := s.register(ctx, worker, "leased", lease)
	for node := range s.nodes {
		testrig.NoError(testrig.Until(ctx, waitLimit, "the workers do not serve", func() bool { return s.serves(ctx, k, worker, node) }))
	}
	end := s.background(ctx, of(s, 100.0, 60), func(int) (key, string) { return k, worker })
	s.addWorker(ctx, k, "new", newWorker, "r7/new-worker")
	s.loseWorker(ctx, kill)
	for _, step := range []struct {
		name string
		do   func(context.Context, *stage)
	}{
		{"killed", killEtcd}, {"compacted", compactEtcd}, {"older", rewindEtcd}, {"emptied", emptyEtcd},
	} {
		s.Progress("r7: etcd %s", step.name)
		step.do(ctx, s)
		s.addWorker(ctx, k, step.name, inSync, "r7/"+step.name)
		if step.name == "compacted" {
			s.Check("r7/missed", "a worker that was added while etcd was unreachable is served", began, testrig.Unless(s.serves(ctx, k, "unseen", 0), "a worker that was added while etcd was unreachable is not served"))
		}
	}
	seen := end()
	s.Check("r7/no-errors", fmt.Sprintf("%d requests while etcd was killed, compacted, emptied and restored", len(seen)), began, bad(seen, exchange.good)...)
}

// addWorker writes a worker and waits until all nodes serve its model.
func (s *stage) addWorker(ctx context.Context, k key, model string, limit time.Duration, check string) {
	began := time.Now()
	s.put(ctx, model, "for-"+model)
	written := time.Now()
	var wrong []string
	for node := range s.nodes {
		_, late := waitFor(ctx, time.Until(written.Add(limit)), fmt.Sprintf("node %d does not serve a new worker", node+1), func() bool { return s.serves(ctx, k, model, node) })
		wrong = append(wrong, late)
	}
	s.Check(check, fmt.Sprintf("a new worker served on all nodes %v after it was written", time.Since(written).Round(time.Millisecond)), began, wrong...)
}

// loseWorker kills the process that renews a worker's lease. The worker itself goes on
// and records further attempts.
func (s *stage) loseWorker(ctx context.Context, kill func()) {
	began := time.Now()
	attempts := func() []attempt { return s.up.attempts.Pick(func(a attempt) bool { return a.who == "leased" }) }
	err := testrig.Until(ctx, 5*time.Second, "it gets no request", func() bool { return len(attempts()) > 0 })
	kill()
	killed := time.Now()
	testrig.Pause(ctx, lease+2*time.Second)
	all := attempts()
	last := time.Duration(0)
	if len(all) > 0 {
		last = all[len(all)-1].at.Sub(killed)
	}
	s.Check("r7/dead-worker", fmt.Sprintf("last attempt %v after its registration died, with a lease of %v", last.Round(10*time.Millisecond), lease), began,
		testrig.Unless(err == nil, "%v", err),
		testrig.Unless(last <= lease+leaseTick, "an attempt %v after its registration died, its lease was %v", last, lease))
}

func killEtcd(ctx context.Context, s *stage) {
	s.etcd.Kill()
	testrig.Pause(ctx, of(s, 10*time.Second, 2*time.Second))
	testrig.NoError(s.etcd.Start())
}

// compactEtcd disconnects the gateways, adds revisions and compacts the history.
func compactEtcd(ctx context.Context, s *stage) {
	s.etcdProxy.Block()
	defer s.etcdProxy.Unblock()
	for i := range 20 {
		s.put(ctx, worker, fmt.Sprintf("w%d", 1+i%3))
	}
	s.put(ctx, "unseen", "for-unseen")
	out := testrig.Must(s.etcdctl(ctx, "get", "/isogloss/", "--prefix", "--limit", "1", "-w", "json"))
	_, rest, _ := strings.Cut(out, `"revision":`)
	revision, _, _ := strings.Cut(rest, ",")
	testrig.Must(s.etcdctl(ctx, "compact", strings.TrimSpace(revision)))
	testrig.Pause(ctx, time.Second)
}

// rewindEtcd restores a copy from before the last changes.
func rewindEtcd(ctx context.Context, s *stage) {
	backup := filepath.Join(s.dir, "etcd-backup")
	s.etcd.Kill()
	testrig.NoError(os.CopyFS(backup, os.DirFS(s.etcd.Dir())))
	testrig.NoError(s.etcd.Start())
	for i := range 10 { // the gateways see revisions that the restored copy lacks
		s.put(ctx, "later", fmt.Sprintf("later-%d", i%2))
	}
	testrig.Pause(ctx, time.Second)
	s.etcd.Kill()
	testrig.NoError(s.etcd.Wipe())
	testrig.NoError(os.RemoveAll(s.etcd.Dir()))
	testrig.NoError(os.CopyFS(s.etcd.Dir(), os.DirFS(backup)))
	testrig.NoError(os.Chmod(s.etcd.Dir(), 0o700))
	testrig.NoError(s.etcd.Start())
}

// emptyEtcd deletes everything. Known workers are served on for a while.
func emptyEtcd(ctx context.Context, s *stage) {
	s.etcd.Kill()
	testrig.NoError(s.etcd.Wipe())
	testrig.NoError(s.etcd.Start())
	testrig.Pause(ctx, of(s, 20*time.Second, 5*time.Second))
	for _, who := range []string{"w1", "w2", "w3"} {
		s.put(ctx, worker, who)
	}
}
