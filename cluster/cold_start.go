package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runColdStart plays r6: a gateway starts from its snapshots while all stores stay down, so that
// it serves only if it does not wait for them.
func runColdStart(ctx context.Context, s *stage) {
	const startGoal = 2 * time.Second
	began, cpu := time.Now(), testrig.ReadCPUTime()
	k := s.newKey(ctx, "r6", limits{requests: 1_000_000})
	s.useEverywhere(ctx, k, cheap)
	s.put(ctx, worker, "w1")
	testrig.NoError(testrig.Until(ctx, waitLimit, "the worker does not serve", func() bool { return s.serves(ctx, k, worker, 0) }))
	cold := s.nodes[0]
	for _, name := range []string{"keys.snapshot", "workers.snapshot"} {
		file := filepath.Join(cold.Data, name)
		testrig.NoError(testrig.Until(ctx, waitLimit, name+" is not written", func() bool { i, err := os.Stat(file); return err == nil && i.Size() > 0 }))
	}
	testrig.Pause(ctx, 2*time.Second) // an older snapshot is written again with the key
	cold.Kill()
	s.redis.Kill()
	s.postgres.Kill()
	s.etcd.Kill()

	launched := time.Now()
	testrig.NoError(cold.Launch())
	var wrong []string
	var last exchange
	took, late := waitFor(ctx, waitLimit, "it does not serve a known key", func() bool {
		last = s.send(ctx, request{key: k, model: cheap, script: script{Tag: tag("cold"), Say: 1}})
		return last.good()
	})
	wrong = append(wrong, late, testrig.Unless(late == "", "%v", last))
	found, late := waitFor(ctx, waitLimit, "it does not serve a worker of its snapshot", func() bool { return s.serves(ctx, k, worker, 0) })
	wrong = append(wrong, late)
	s.Figures("r6/from-snapshots", fmt.Sprintf("a known key was served %v after the start, a discovered worker %v later", took.Round(time.Millisecond), found.Round(time.Millisecond)), began, cpu, []string{goal("the start", time.Since(launched), startGoal)}, wrong...)
	s.withoutSnapshots()
}

// withoutSnapshots starts a node that has no snapshot.
func (s *stage) withoutSnapshots() {
	began := time.Now()
	g := s.nodes[1]
	g.Kill()
	testrig.NoError(os.RemoveAll(g.Data))
	testrig.NoError(os.MkdirAll(g.Data, 0o700))
	logged := len(g.Log())
	testrig.NoError(g.Launch())
	var wrong []string
	select {
	case <-g.Ended:
	case <-time.After(waitLimit):
		wrong = append(wrong, "it runs without keys")
	}
	text := strings.ReplaceAll(strings.TrimSpace(g.Log()[logged:]), g.Dir, "…")
	wrong = append(wrong, testrig.Unless(strings.Contains(text, "snapshot"), "it does not say that there is no snapshot: %s", testrig.Clip(text, 600)))
	s.Check("r6/without-snapshots", fmt.Sprintf("it ended after %v: %s", time.Since(began).Round(time.Millisecond), testrig.Clip(text[strings.LastIndex(text, "\n")+1:], 300)), began, wrong...)
}

// serves reports whether a model is served on a node.
func (s *stage) serves(ctx context.Context, k key, model string, node int) bool {
	return s.send(ctx, request{key: k, model: model, node: node, script: script{Tag: tag("serves"), Say: 1}}).status == http.StatusOK
}
