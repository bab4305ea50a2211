package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// runColdStart is R6.
func runColdStart(ctx context.Context, s *stage) error {
	const limit = 2 * time.Second
	began := time.Now()
	k, err := s.newKey(ctx, "r6", limits{requests: 1_000_000})
	if err != nil {
		return err
	}
	if err := s.useEverywhere(ctx, k, cheap); err != nil {
		return err
	}
	if err := s.put(ctx, worker, "w1"); err != nil {
		return err
	}
	if err := until(ctx, patience, "the worker does not serve", func() bool { return s.serves(ctx, k, worker, 0) }); err != nil {
		return err
	}
	cold := s.nodes[0]
	for _, name := range []string{"keys.snapshot", "workers.snapshot"} {
		file := filepath.Join(cold.data, name)
		if err := until(ctx, patience, name+" is not written", func() bool { i, err := os.Stat(file); return err == nil && i.Size() > 0 }); err != nil {
			return err
		}
	}
	pause(ctx, 2*time.Second) // a snapshot that was there before the key is written again
	cold.kill()
	s.redis.Kill()
	s.postgres.Kill()
	s.etcd.Kill()

	launched := time.Now()
	if err := cold.launch(); err != nil {
		return err
	}
	var wrong []string
	var last asked
	took, late := waited(ctx, limit, "it does not serve a known key", func() bool {
		last = s.ask(ctx, wish{key: k, model: cheap, script: script{Tag: tag("cold"), Say: 1}})
		return last.good()
	})
	wrong = append(wrong, late, unless(late == "", "%v", last))
	found, late := waited(ctx, time.Until(launched.Add(limit)), "it does not serve a worker of its snapshot", func() bool { return s.serves(ctx, k, worker, 0) })
	wrong = append(wrong, late, unless(time.Since(launched) <= limit+time.Second, "it took %v", time.Since(launched)))
	s.check("r6/from-snapshots", fmt.Sprintf("a known key was served %v after the start, a discovered worker %v later", took.Round(time.Millisecond), found.Round(time.Millisecond)), began, wrong...)
	return s.withoutSnapshots()
}

// withoutSnapshots starts a node that has nothing to go by.
func (s *stage) withoutSnapshots() error {
	began := time.Now()
	g := s.nodes[1]
	g.kill()
	if err := os.RemoveAll(g.data); err != nil {
		return err
	}
	if err := os.MkdirAll(g.data, 0o700); err != nil {
		return err
	}
	said := len(g.log())
	if err := g.launch(); err != nil {
		return err
	}
	var wrong []string
	select {
	case <-g.ended:
	case <-time.After(20 * time.Second):
		wrong = append(wrong, "it runs")
	}
	text := strings.ReplaceAll(strings.TrimSpace(g.log()[said:]), g.dir, "…")
	wrong = append(wrong, unless(strings.Contains(text, "snapshot"), "it does not say that there is no snapshot: %s", clip(text, 600)))
	s.check("r6/without-snapshots", fmt.Sprintf("it ended after %v: %s", time.Since(began).Round(time.Millisecond), clip(text[strings.LastIndex(text, "\n")+1:], 300)), began, wrong...)
	return nil
}

// serves reports whether a model is served on a node.
func (s *stage) serves(ctx context.Context, k key, model string, node int) bool {
	return s.ask(ctx, wish{key: k, model: model, node: node, script: script{Tag: tag("serves"), Say: 1}}).status == http.StatusOK
}
