package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runDiskFull fills the disk of a node while requests are open, and restarts the node.
func runDiskFull(ctx context.Context, s *stage) {
	began := time.Now()
	s.single(ctx, s.settings())
	g := s.nodes[0]
	testrig.Must(g.Stop(ctx))
	testrig.NoError(os.MkdirAll(g.Data, 0o700))
	err := syscall.Mount("small", g.Data, "tmpfs", 0, "size=24m")
	if errors.Is(err, syscall.EPERM) {
		s.Progress("disk: not run, because only root may mount a small disk")
		return
	}
	testrig.NoError(err)
	s.cleanups = append(s.cleanups, func() {
		g.Close()
		_ = syscall.Unmount(g.Data, syscall.MNT_DETACH)
	})
	testrig.NoError(g.Start(ctx))
	paid, free := s.newKey(ctx, "paid", limits{budget: 1_000_000}), s.newKey(ctx, "free", limits{})
	s.useEverywhere(ctx, paid, cheap)
	s.useEverywhere(ctx, free, cheap)
	const open = 50
	done := make(chan struct{})
	go func() {
		defer close(done)
		testrig.Each(open, open, func(int) {
			w := request{key: paid, model: cheap, stream: true}
			w.Tag, w.Say, w.Every = tag("open"), 120, 100*time.Millisecond
			s.send(ctx, w)
		})
	}()
	testrig.NoError(testrig.Until(ctx, waitLimit, "not all streams are open", func() bool { return s.up.Open.Load() == open }))
	filler := filepath.Join(g.Data, "filler")
	fill(filler)
	var wrong []string
	before, refused, served := 0, 0, 0
	for ; before < 2000; before++ { // until the space is used that the spool had taken before
		if e := s.spend(ctx, 0, paid, 10); !e.good() {
			break
		}
	}
	for range 20 {
		if e := s.spend(ctx, 0, paid, 10); e.status == http.StatusServiceUnavailable && e.code == "ledger_full" {
			refused++
		} else {
			wrong = append(wrong, fmt.Sprintf("a key with a budget: %v", e))
		}
		if e := s.spend(ctx, 0, free, 10); e.good() {
			served++
		} else {
			wrong = append(wrong, fmt.Sprintf("a key without a budget: %v", e))
		}
	}
	<-done
	g.Kill()
	testrig.NoError(os.Remove(filler))
	testrig.NoError(g.Start(ctx))
	s.spendSome(ctx, paid, 100)
	rows := s.settled(ctx, settleTime)
	paidRows := testrig.Count(rows, func(r row) bool { return r.key == paid.ID })
	paidServed := testrig.Count(s.exchanges.List(), func(e exchange) bool { return e.key == paid.ID && e.delivered() })
	wrong = append(wrong, testrig.Unless(paidRows == paidServed, "%d requests of the key with a budget were served, and %d have a row", paidServed, paidRows))
	s.Check("disk/full", fmt.Sprintf("%d streams that were open ended with a row, and so did %d requests for which the spool had space; then %d with a budget were refused and %d without one were served", open, before, refused, served), began, wrong...)
}

// fill writes until the disk is full.
func fill(path string) {
	f := testrig.Must(os.Create(path))
	defer f.Close()
	for size := 256 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
