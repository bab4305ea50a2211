package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isogloss-gateway/isogloss/chaos/reload"
	"github.com/isogloss-gateway/isogloss/chaos/restart"
)

// runRestart is R15: new processes take over while streams are open.
func runRestart(ctx context.Context, b *bench) error {
	const name = "r15/rolling-restart"
	if !b.wants(name) {
		return nil
	}
	began := time.Now()
	o := restart.Default()
	if b.short {
		o.Restarts, o.Streams, o.StreamTime = 1, 200, 4*time.Second
	}
	r, err := restart.Run(ctx, b.bin, o, func(line string) { b.progress("r15: %s", line) })
	if err != nil {
		return err
	}
	b.check(name, fmt.Sprintf("%d restarts; %d streams whole, %d cut; %d answers whole, %d failed", len(r.Handovers), r.Streams, r.Cut, r.Answers, r.Failed), began,
		over(r.Lost(), "%d streams were cut and %d requests failed: %q", r.Cut, r.Failed, r.Reasons))
	return nil
}

// runReload is R16: the file changes all the time, and some versions are poisoned.
func runReload(ctx context.Context, b *bench) error {
	const name = "r16/reload"
	if !b.wants(name) {
		return nil
	}
	began := time.Now()
	o := reload.Default()
	if b.short {
		o.Changes, o.Poisoned = 100, 10
	}
	r, err := reload.Run(ctx, b.bin, o, func(line string) { b.progress("r16: %s", line) })
	if err != nil {
		return err
	}
	wrong := r.Wrong()
	b.check(name, r.String(), began, over(wrong != nil, "%v", wrong))
	return nil
}
