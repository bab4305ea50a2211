package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// key is the key of a client or an operator, as the command line prints it once.
type key struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// limits are the limits of a key; zero is no limit.
type limits struct {
	requests, concurrency int
	tokens                int // in a minute
	budget                int // in tokens of output
	org, team             string
	role                  string
}

// newKey creates a key on the command line, as an operator does.
func (c *cluster) newKey(ctx context.Context, name string, l limits) key {
	return createKey(ctx, c.nodes[0], name, l)
}

func createKey(ctx context.Context, g *testrig.Gateway, name string, l limits) (k key) {
	args := []string{"keys", "create", "-c", g.Config, "--json", "--name", name}
	add := func(flag, value string) {
		if value != "" && value != "0" {
			args = append(args, flag, value)
		}
	}
	if l.role == "" {
		add("--models", "*")
	}
	add("--role", l.role)
	add("--org", l.org)
	add("--team", l.team)
	add("--requests", strconv.Itoa(l.requests))
	add("--tokens", strconv.Itoa(l.tokens))
	add("--concurrency", strconv.Itoa(l.concurrency))
	if l.budget > 0 {
		add("--budget", dollars(l.budget*outputCost))
		add("--window", "720h")
	}
	out := testrig.Must(g.Command(ctx, args...))
	if err := json.Unmarshal(out, &k); err != nil || k.ID == "" || k.Key == "" {
		testrig.NoError(fmt.Errorf("isogloss keys create --json prints no id and key: %w: %s", err, testrig.Clip(string(out), 300)))
	}
	return k
}

// dollars formats billionths of a dollar as a decimal number.
func dollars(nano int) string { return fmt.Sprintf("%d.%09d", nano/1e9, nano%1e9) }

// useEverywhere sends a request to every node, so that each knows the key.
func (c *cluster) useEverywhere(ctx context.Context, k key, model string) {
	for i := range c.nodes {
		e := c.send(ctx, request{key: k, model: model, node: i, script: script{Tag: fmt.Sprintf("hello-%s-%d", k.ID, i), Say: 1}})
		if !e.good() {
			testrig.NoError(fmt.Errorf("the first request of a key: %v", e))
		}
	}
}

// usedKey creates a key and uses it on every node.
func (c *cluster) usedKey(ctx context.Context, name, model string, l limits) key {
	k := c.newKey(ctx, name, l)
	c.useEverywhere(ctx, k, model)
	return k
}

// usedKeys creates keys that every node has seen.
func (c *cluster) usedKeys(ctx context.Context, n int, name, model string, l limits) []key {
	all := make([]key, n)
	for i := range all {
		all[i] = c.usedKey(ctx, fmt.Sprintf("%s-%d", name, i), model, l)
	}
	return all
}

// warm uses the stores of every node once and waits until the nodes know each other: a
// node's share of a limit depends on their number.
func (c *cluster) warm(ctx context.Context) {
	c.usedKey(ctx, "warm", cheap, limits{requests: 1_000_000, budget: 1_000_000})
	testrig.Pause(ctx, 3*time.Second)
}

// revoke revokes a key on the command line.
func (c *cluster) revoke(ctx context.Context, k key) {
	testrig.Must(c.nodes[0].Command(ctx, "keys", "revoke", "-c", c.nodes[0].Config, k.ID))
}

// foreignKeys creates well-formed keys, with the cluster's pepper, that are in no store of the
// cluster. Their node never runs.
func (c *cluster) foreignKeys(ctx context.Context, n int) []key {
	s := c.settings()
	s.store = "sqlite"
	g := testrig.Must(c.newNode("foreign", s))
	all := make([]key, n)
	for i := range all {
		all[i] = createKey(ctx, g, fmt.Sprintf("foreign-%d", i), limits{})
	}
	return all
}

const (
	// settleTime is far more than the time between the end of a request and its entry in Redis
	// and the ledger, while both are healthy.
	settleTime = time.Minute
	// settleGoal is that time on a quiet machine.
	settleGoal = 5 * time.Second
)
