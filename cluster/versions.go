package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// olderVersion is the commit of an older version of the gateway: the last one that migrated tables of all versions.
const olderVersion = "c2382748"

// errNoHistory says that the clone lacks the commit of an older version.
var errNoHistory = errors.New("this clone does not have the commit of the older version; fetch the whole history")

// buildOld builds the older version from the history of the repository and returns its binary.
func buildOld(ctx context.Context, dir string) (string, error) {
	top, err := output(ctx, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", errors.Join(errNoHistory, err)
	}
	git := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = string(top[:len(top)-1])
		_, err := testrig.Output(cmd)
		return err
	}
	if err := git("cat-file", "-e", olderVersion+"^{commit}"); err != nil {
		return "", errors.Join(errNoHistory, err)
	}
	source, bin := filepath.Join(dir, "old"), filepath.Join(dir, "isogloss-old")
	if err := errors.Join(os.Mkdir(source, 0o700), git("archive", "-o", source+".tar", olderVersion)); err != nil {
		return "", err
	}
	if _, err := output(ctx, "tar", "-xf", source+".tar", "-C", source); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", bin, "./cmd/isogloss")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	_, err = testrig.Output(cmd)
	return bin, err
}

// runUpgrade upgrades nodes of the older version one after the other under load, and goes back with one.
func runUpgrade(ctx context.Context, s *stage) {
	began := time.Now()
	old, err := buildOld(ctx, s.dir)
	if errors.Is(err, errNoHistory) {
		s.Progress("upgrade: not run: %v", err)
		return
	}
	testrig.NoError(err)
	s.Progress("upgrade: the older version was built in %v", time.Since(began).Round(time.Second))
	began = time.Now()
	s.startOld(ctx, old)
	s.warm(ctx)
	load := s.newKey(ctx, "load", limits{requests: 10_000_000, budget: 100_000_000})
	s.useEverywhere(ctx, load, dear)
	k := s.newKey(ctx, "budget", limits{budget: historyBudget})
	s.spendSome(ctx, k, 600)
	end := s.background(ctx, 60, func(int) (key, string) { return load, dear })

	s.install(ctx, s.bin, 0)
	s.Progress("upgrade: node 1 is new, nodes 2 and 3 are old")
	s.spendSome(ctx, k, 900)
	s.sideBySide(ctx)
	for node := 1; node < nodes; node++ {
		s.install(ctx, s.bin, node)
	}
	s.Progress("upgrade: all nodes are new")
	wrong := s.exhaust(ctx, k, 5*time.Second)
	s.install(ctx, old, 2)
	s.Progress("upgrade: node 3 is old again")
	wrong = append(wrong, s.exhaust(ctx, k, 3*time.Second)...) // nothing is left
	seen := end()
	s.Check("upgrade/no-errors", fmt.Sprintf("%d requests while three nodes were upgraded one after the other and one went back", len(seen)), began, bad(seen, exchange.good)...)
	s.balance(ctx, "upgrade", k, 0, wrong)
}

// emptySchema removes all tables.
const emptySchema = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"

// startOld empties the stores and starts three nodes of the older version. Each has a binary of its own.
func (s *stage) startOld(ctx context.Context, old string) {
	for _, g := range s.nodes {
		testrig.Must(g.Stop(ctx))
	}
	s.nodes = nil
	testrig.Must(s.query(ctx, emptySchema))
	redisCommand(ctx, s.redis, "FLUSHALL")
	latest := s.bin
	defer func() { s.bin = latest }()
	for i := range nodes {
		s.bin = s.binary(i)
		testrig.NoError(replaceFile(old, s.bin))
		s.nodes = append(s.nodes, testrig.Must(s.newNode(fmt.Sprintf("v-%d", i+1), s.settings())))
	}
	testrig.NoError(s.startNodes(ctx))
}

// binary returns the file of a node's binary.
func (s *stage) binary(node int) string {
	return filepath.Join(s.dir, fmt.Sprintf("isogloss-%d", node+1))
}

// replaceFile copies a binary to a new file that then takes the name.
func replaceFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", text, 0o700); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// install gives a node another binary and replaces its process, as docs/operations/upgrade.md says.
func (s *stage) install(ctx context.Context, bin string, node int) {
	testrig.NoError(replaceFile(bin, s.binary(node)))
	testrig.Must(s.nodes[node].Replace(ctx))
}

// sideBySide checks what nodes of two versions share: keys, revocations and budgets.
func (s *stage) sideBySide(ctx context.Context) {
	began := time.Now()
	const budget, say, asks, parallel = 3000, 30, 300, 12
	byNew := createKey(ctx, s.nodes[0], "by-new", limits{budget: budget})
	byOld := createKey(ctx, s.nodes[1], "by-old", limits{requests: 1_000_000})
	s.useEverywhere(ctx, byOld, cheap)
	answers := make([]exchange, asks)
	testrig.Each(asks, parallel, func(i int) { answers[i] = s.spend(ctx, i%nodes, byNew, say) })
	used := s.tokensOf(byNew)
	wrong := bad(answers, goodOrRefused)
	s.revoke(ctx, byOld) // on node 1
	took, late := s.refusedEverywhere(ctx, byOld, http.StatusUnauthorized)
	s.Check("upgrade/side-by-side", fmt.Sprintf("a new node and two old ones: %d of %d tokens spent by %d requests, %d at a time, 0 more were allowed; a key that the new node revoked was refused everywhere after %v",
		used, budget, asks, parallel, took.Round(10*time.Millisecond)), began,
		append(wrong, late, testrig.Unless(used <= budget, "%d of %d tokens were spent", used, budget), testrig.Unless(used >= budget*9/10, "only %d of %d tokens could be spent", used, budget))...)
}
