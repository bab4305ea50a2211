package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// startRoute starts the router of cells. Its only cell is the upstream.
func (b *bench) startRoute(ctx context.Context, upstream string) *process {
	addresses := testrig.Must(testrig.Addresses(2))
	listen, metrics := addresses[0], addresses[1]
	dir := testrig.Must(os.MkdirTemp(b.dir, "route"))
	conf := filepath.Join(dir, "cells.yaml")
	text := fmt.Sprintf("listen: %s\nmetrics: %s\ncells: { one: { url: \"http://%s\" } }\ndefault: one\n", listen, metrics, upstream)
	testrig.NoError(os.WriteFile(conf, []byte(text), 0o600))
	return start(ctx, launch{
		name: "route", addr: listen, metrics: "http://" + metrics + "/metrics", health: "http://" + metrics + "/ready",
		dir: dir, args: []string{b.bin, "route", "-c", conf},
	})
}

// routePart measures the router of cells against bare, in the same rounds.
func (b *bench) routePart() {
	arms, kept := b.arms, len(b.kept)
	defer func() {
		b.arms = arms
		b.release(kept)
	}()
	b.arms = append(b.arms[:len(b.arms):len(b.arms)], &arm{name: router, base: bareChat, proc: b.shared(b.startRoute), client: testrig.Chat, fresh: b.startRoute})
	const requests, events, streams = 1500, 200, 150
	for round := range b.size(11, 7) {
		for _, a := range b.choose(bareChat, router) {
			j := b.whole(a, 2<<10, 1<<10)
			j.Total = requests
			b.oneRequest(a, "route-request", round, j)
			b.oneBurst(a, "route-burst", 0, round, job{Events: events, Total: streams})
		}
	}
}
