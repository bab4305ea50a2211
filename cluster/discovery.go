package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	inSync    = 5 * time.Second // after etcd is back, in turns
	newWorker = time.Second     // in turns
	lease     = 5 * time.Second
	leaseTick = time.Second // in turns, after etcd has removed the worker; etcd checks for expired leases twice a second
)

// runDiscovery plays r7: discovered workers are served whatever happens to etcd.
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
	began, cpu := time.Now(), testrig.ReadCPUTime()
	s.put(ctx, model, "for-"+model)
	written := time.Now()
	wrong := make([]string, len(s.nodes))
	testrig.Each(len(s.nodes), len(s.nodes), func(node int) {
		_, wrong[node] = s.soon(ctx, node, limit, fmt.Sprintf("node %d does not serve a new worker", node+1), func() bool { return s.serves(ctx, k, model, node) })
	})
	took := time.Since(written)
	s.Figures(check, fmt.Sprintf("a new worker served on all nodes %v after it was written", took.Round(time.Millisecond)), began, cpu, []string{goal("it", took, limit)}, wrong...)
}

// loseWorker kills the process that renews a worker's lease. The worker itself goes on
// and records further attempts. When etcd has removed the worker, nodes send it nothing.
func (s *stage) loseWorker(ctx context.Context, kill func()) {
	began, cpu := time.Now(), testrig.ReadCPUTime()
	attempts := func(who string) []attempt { return s.up.attempts.Pick(func(a attempt) bool { return a.who == who }) }
	err := testrig.Until(ctx, waitLimit, "it gets no request", func() bool { return len(attempts("leased")) > 0 })
	kill()
	killed := time.Now()
	gone := testrig.Until(ctx, waitLimit, "etcd does not remove it", func() bool {
		keys, err := s.etcdctl(ctx, "get", "--prefix", "--keys-only", "/isogloss/")
		return err == nil && !strings.Contains(keys, "leased")
	})
	for node := range s.nodes {
		s.soon(ctx, node, leaseTick, "", func() bool { return false })
	}
	before, others := len(attempts("leased")), len(attempts("w1"))
	served := testrig.Until(ctx, waitLimit, "the other workers get no requests", func() bool { return len(attempts("w1")) >= others+10*nodes })
	all := attempts("leased")
	last := time.Duration(0)
	if len(all) > 0 {
		last = all[len(all)-1].at.Sub(killed)
	}
	s.Figures("r7/dead-worker", fmt.Sprintf("last attempt %v after its registration died, with a lease of %v", last.Round(10*time.Millisecond), lease), began, cpu,
		[]string{goal("its removal", last, lease+leaseTick)},
		testrig.Unless(errors.Join(err, gone, served) == nil, "%v", errors.Join(err, gone, served)),
		testrig.Unless(len(all) == before, "%d attempts after etcd had removed it", len(all)-before))
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
