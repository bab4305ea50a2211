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

// version is an older version of the gateway.
type version struct {
	commit string
	apart  bool // it counts budgets in other records of Redis than this version
}

// The older versions. The first has the tables of the first schema file only. The second has the same tables and
// records as the version after it.
var (
	firstSchema = version{commit: "5d71342aeba3", apart: true}
	sameRecords = version{commit: "c763071"}
)

// errNoHistory says that the clone lacks the commit of an older version.
var errNoHistory = errors.New("this clone does not have the commit of the older version; fetch the whole history")

// buildOld builds the older version from the history of the repository and returns its binary.
func buildOld(ctx context.Context, dir string, v version) (string, error) {
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
	if err := git("cat-file", "-e", v.commit+"^{commit}"); err != nil {
		return "", errors.Join(errNoHistory, err)
	}
	source, bin := filepath.Join(dir, "old"), filepath.Join(dir, "isogloss-old")
	if err := errors.Join(os.Mkdir(source, 0o700), git("archive", "-o", source+".tar", v.commit)); err != nil {
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

// upgrade returns a scenario that upgrades nodes of an older version one after the other under load, and goes back with one.
func upgrade(name string, v version) func(context.Context, *stage) {
	return func(ctx context.Context, s *stage) {
		began := time.Now()
		old, err := buildOld(ctx, s.dir, v)
		if errors.Is(err, errNoHistory) {
			s.Progress("%s: not run: %v", name, err)
			return
		}
		testrig.NoError(err)
		s.Progress("%s: the older version was built in %v", name, time.Since(began).Round(time.Second))
		s.upgrade(ctx, name, old, v.apart)
	}
}

func (s *stage) upgrade(ctx context.Context, name, old string, apart bool) {
	began := time.Now()
	s.startOld(ctx, old)
	s.warm(ctx)
	load := s.newKey(ctx, "load", limits{requests: 10_000_000, budget: 100_000_000})
	s.useEverywhere(ctx, load, dear)
	k := s.newKey(ctx, "budget", limits{budget: historyBudget})
	s.spendSome(ctx, k, 600)
	end := s.background(ctx, 60, func(int) (key, string) { return load, dear })

	s.install(ctx, s.bin, 0)
	s.Progress("%s: node 1 is new, nodes 2 and 3 are old", name)
	s.spendSome(ctx, k, 900)
	s.sideBySide(ctx, name, apart)
	for node := 1; node < nodes; node++ {
		s.install(ctx, s.bin, node)
	}
	s.Progress("%s: all nodes are new", name)
	if apart { // as upgrade.md says
		lost := s.outages()
		s.redis.Kill()
		testrig.NoError(s.redis.Start())
		testrig.NoError(testrig.Until(ctx, waitLimit, "a node does not use Redis again", func() bool { return s.outages() >= lost+nodes && s.redisShared() }))
	}
	wrong := s.exhaust(ctx, k, 5*time.Second)
	s.install(ctx, old, 2)
	s.Progress("%s: node 3 is old again", name)
	wrong = append(wrong, s.exhaust(ctx, k, 3*time.Second)...) // nothing is left
	seen := end()
	s.Check(name+"/no-errors", fmt.Sprintf("%d requests while three nodes were upgraded one after the other and one went back", len(seen)), began, bad(seen, exchange.good)...)
	s.balance(ctx, name, k, 0, wrong)
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

// sideBySide checks what nodes of two versions share: keys, revocations and, unless each counts apart, budgets.
func (s *stage) sideBySide(ctx context.Context, name string, apart bool) {
	began := time.Now()
	const budget, say, asks, parallel = 3000, 30, 300, 12
	bound := 0
	if apart {
		bound = budget
	}
	byNew := createKey(ctx, s.nodes[0], "by-new", limits{budget: budget})
	byOld := createKey(ctx, s.nodes[1], "by-old", limits{requests: 1_000_000})
	s.useEverywhere(ctx, byOld, cheap)
	answers := make([]exchange, asks)
	testrig.Each(asks, parallel, func(i int) { answers[i] = s.spend(ctx, i%nodes, byNew, say) })
	used := s.tokensOf(byNew)
	wrong := bad(answers, goodOrRefused)
	s.revoke(ctx, byOld) // on node 1
	took, late := s.refusedEverywhere(ctx, byOld, http.StatusUnauthorized)
	s.Check(name+"/side-by-side", fmt.Sprintf("a new node and two old ones: %d of %d tokens spent by %d requests, %d at a time, %d more were allowed; a key that the new node revoked was refused everywhere after %v",
		used, budget, asks, parallel, bound, took.Round(10*time.Millisecond)), began,
		append(wrong, late, testrig.Unless(used <= budget+bound, "%d of %d tokens were spent, and the bound is %d", used, budget, bound), testrig.Unless(used >= budget*9/10, "only %d of %d tokens could be spent", used, budget))...)
}
