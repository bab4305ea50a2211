package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// key is a client's or an operator's key, as the command line tells it once.
type key struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// limits are what a key may use; zero is no limit.
type limits struct {
	requests, concurrency int
	tokens                int // in a minute
	budget                int // in tokens of output
	org, team             string
	role                  string
}

// newKey makes a key on the command line, as an operator does.
func (c *cluster) newKey(ctx context.Context, name string, l limits) (key, error) {
	return c.nodes[0].newKey(ctx, name, l)
}

func (g *gateway) newKey(ctx context.Context, name string, l limits) (key, error) {
	args := []string{"keys", "create", "-c", g.config, "--json", "--name", name}
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
	said, err := g.command(ctx, args...)
	if err != nil {
		return key{}, err
	}
	var k key
	if err := json.Unmarshal(said, &k); err != nil || k.ID == "" || k.Key == "" {
		return key{}, fmt.Errorf("isogloss keys create --json says no id and key: %w: %s", err, clip(string(said), 300))
	}
	return k, nil
}

// dollars writes billionths of a dollar as a decimal number, exactly.
func dollars(nano int) string { return fmt.Sprintf("%d.%09d", nano/1e9, nano%1e9) }

// useEverywhere asks once on every node, so that each knows the key, and returns
// what is wrong.
func (c *cluster) useEverywhere(ctx context.Context, k key, model string) error {
	for i := range c.nodes {
		a := c.ask(ctx, wish{key: k, model: model, node: i, script: script{Tag: fmt.Sprintf("hello-%s-%d", k.ID, i), Say: 1}})
		if !a.good() {
			return fmt.Errorf("the first request of a key: %v", a)
		}
	}
	return nil
}

// warm has every node use its stores once, and waits until the nodes know of each
// other: what a node gives while Redis is slow is a share of what is left.
func (c *cluster) warm(ctx context.Context) error {
	k, err := c.newKey(ctx, "warm", limits{requests: 1_000_000, budget: 1_000_000})
	if err != nil {
		return err
	}
	if err := c.useEverywhere(ctx, k, cheap); err != nil {
		return err
	}
	pause(ctx, 3*time.Second)
	return nil
}

// revoke ends a key on the command line.
func (c *cluster) revoke(ctx context.Context, k key) error {
	_, err := c.nodes[0].command(ctx, "keys", "revoke", "-c", c.nodes[0].config, k.ID)
	return err
}

// foreign is a node that never runs: its keys are well formed, with the same
// pepper, and no store of the cluster knows them.
func (c *cluster) foreign() (*gateway, error) {
	g, err := newGateway(c.bin, c.dir, "foreign")
	if err != nil {
		return nil, err
	}
	g.env = append(g.env, "PEPPER="+pepperText)
	s := c.settings()
	s.store = "sqlite"
	return g, g.configure(s, c.up)
}

// foreignKeys are some of them.
func (c *cluster) foreignKeys(ctx context.Context, n int) ([]key, error) {
	g, err := c.foreign()
	if err != nil {
		return nil, err
	}
	all := make([]key, n)
	for i := range all {
		if all[i], err = g.newKey(ctx, fmt.Sprintf("foreign-%d", i), limits{}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// settleTime is how long a node may take to tell Redis and the ledger of a request
// that has ended, while all is well.
const settleTime = 5 * time.Second
