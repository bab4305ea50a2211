package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	inStep    = 5 * time.Second // after etcd is there again
	newWorker = time.Second
	lease     = 5 * time.Second
	granular  = time.Second // etcd looks for leases that have ended twice a second
)

// runDiscovery is R7.
func runDiscovery(ctx context.Context, s *stage) error {
	began := time.Now()
	k, err := s.newKey(ctx, "r7", limits{})
	if err != nil {
		return err
	}
	for _, who := range []string{"w1", "w2", "w3"} {
		if err := s.put(ctx, worker, who); err != nil {
			return err
		}
	}
	kill, err := s.register(ctx, worker, "leased", lease)
	if err != nil {
		return err
	}
	for node := range s.nodes {
		if err := until(ctx, patience, "the workers do not serve", func() bool { return s.serves(ctx, k, worker, node) }); err != nil {
			return err
		}
	}
	end := s.background(ctx, of(s, 100, 60), func(int) (key, string) { return k, worker })
	s.comes(ctx, k, "new", newWorker, "r7/new-worker")
	s.dies(ctx, kill)
	for _, step := range []struct {
		name string
		do   func(context.Context, *stage) error
	}{
		{"killed", killEtcd}, {"compacted", compactEtcd}, {"older", rewindEtcd}, {"emptied", emptyEtcd},
	} {
		s.progress("r7: etcd %s", step.name)
		if err := step.do(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		s.comes(ctx, k, step.name, inStep, "r7/"+step.name)
		if step.name == "compacted" {
			s.check("r7/missed", "a worker that came while the way was cut is served", began, unless(s.serves(ctx, k, "unseen", 0), "a worker that came while the way was cut is not served"))
		}
	}
	seen := end()
	s.check("r7/no-errors", fmt.Sprintf("%d requests while etcd was killed, compacted, emptied and put back", len(seen)), began, bad(seen, asked.good)...)
	return nil
}

// comes writes a worker and waits until all nodes serve its model.
func (s *stage) comes(ctx context.Context, k key, model string, limit time.Duration, check string) {
	began := time.Now()
	if err := s.put(ctx, model, "for-"+model); err != nil {
		s.failed(check, err.Error(), time.Since(began))
		return
	}
	written := time.Now()
	var wrong []string
	for node := range s.nodes {
		_, late := waited(ctx, time.Until(written.Add(limit)), fmt.Sprintf("node %d does not serve a new worker", node+1), func() bool { return s.serves(ctx, k, model, node) })
		wrong = append(wrong, late)
	}
	s.check(check, fmt.Sprintf("a new worker served on all nodes %v after it was written", time.Since(written).Round(time.Millisecond)), began, wrong...)
}

// dies kills what keeps a worker's lease. The worker itself goes on and counts who
// still comes.
func (s *stage) dies(ctx context.Context, kill func()) {
	began := time.Now()
	asks := func() []served { return s.up.history.pick(func(a served) bool { return a.who == "leased" }) }
	err := until(ctx, 5*time.Second, "it was never asked", func() bool { return len(asks()) > 0 })
	kill()
	killed := time.Now()
	pause(ctx, lease+2*time.Second)
	all := asks()
	last := time.Duration(0)
	if len(all) > 0 {
		last = all[len(all)-1].at.Sub(killed)
	}
	s.check("r7/dead-worker", fmt.Sprintf("asked for the last time %v after its registration died, with a lease of %v", last.Round(10*time.Millisecond), lease), began,
		unless(err == nil, "%v", err),
		unless(last <= lease+granular, "it was still asked %v after its registration died, its lease was %v", last, lease))
}

func killEtcd(ctx context.Context, s *stage) error {
	s.etcd.Kill()
	pause(ctx, of(s, 10*time.Second, 2*time.Second))
	return s.etcd.Start()
}

// compactEtcd cuts the gateways off, moves the history on and forgets it.
func compactEtcd(ctx context.Context, s *stage) error {
	s.way.cut()
	defer s.way.mend()
	for i := range 20 {
		if err := s.put(ctx, worker, fmt.Sprintf("w%d", 1+i%3)); err != nil {
			return err
		}
	}
	if err := s.put(ctx, "unseen", "for-unseen"); err != nil {
		return err
	}
	said, err := s.etcdctl(ctx, "get", "/isogloss/", "--prefix", "--limit", "1", "-w", "json")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(said, `"revision":`)
	revision, _, _ := strings.Cut(rest, ",")
	if _, err := s.etcdctl(ctx, "compact", strings.TrimSpace(revision)); err != nil {
		return err
	}
	pause(ctx, time.Second)
	return nil
}

// rewindEtcd puts back a copy from before the last changes.
func rewindEtcd(ctx context.Context, s *stage) error {
	backup := filepath.Join(s.dir, "etcd-backup")
	s.etcd.Kill()
	if err := os.CopyFS(backup, os.DirFS(s.etcd.Dir())); err != nil {
		return err
	}
	if err := s.etcd.Start(); err != nil {
		return err
	}
	for i := range 10 { // the gateways see revisions that will not have been
		if err := s.put(ctx, "later", fmt.Sprintf("later-%d", i%2)); err != nil {
			return err
		}
	}
	pause(ctx, time.Second)
	s.etcd.Kill()
	if err := s.etcd.Wipe(); err != nil {
		return err
	}
	if err := os.RemoveAll(s.etcd.Dir()); err != nil {
		return err
	}
	if err := os.CopyFS(s.etcd.Dir(), os.DirFS(backup)); err != nil {
		return err
	}
	if err := os.Chmod(s.etcd.Dir(), 0o700); err != nil {
		return err
	}
	return s.etcd.Start()
}

// emptyEtcd loses everything. What was known is served on, for a good while.
func emptyEtcd(ctx context.Context, s *stage) error {
	s.etcd.Kill()
	if err := s.etcd.Wipe(); err != nil {
		return err
	}
	if err := s.etcd.Start(); err != nil {
		return err
	}
	pause(ctx, of(s, 20*time.Second, 5*time.Second))
	for _, who := range []string{"w1", "w2", "w3"} {
		if err := s.put(ctx, worker, who); err != nil {
			return err
		}
	}
	return nil
}
