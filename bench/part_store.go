package main

import (
	"context"
	"errors"
	"os"
)

// storePart measures keys, limits and the ledger: the gateway with a store beside the
// one without, both beside bare, in the same rounds. CPU is that of the gateway's own
// process, with what it does for a request after it was answered.
func (b *bench) storePart() error {
	stop, err := b.addStores()
	defer stop()
	if err != nil {
		return err
	}
	if err := b.storeRequests(); err != nil {
		return err
	}
	if err := b.storeEvents(); err != nil {
		return err
	}
	if err := b.paced("store-paced", b.choose(bareChat, ours, oursStore), storeStreams, 5); err != nil {
		return err
	}
	if err := b.storeMemory(); err != nil || b.o.quick {
		return err
	}
	b.look()
	b.say("  latency at %d/s", storeRate)
	return b.latencies(b.choose(direct, bareChat, ours, oursStore, oursRedis), "store", storeRate, storeRate, 5)
}

// What a busy machine still carries, so that what is added is seen and not the queue.
const (
	storeRate    = 500 // requests a second
	storeStreams = 250 // paced streams
)

// addStores starts the gateways that have a store, for this part only: they ask their
// store for changes every second. The returned function ends them.
func (b *bench) addStores() (stop func(), err error) {
	var started []*process
	before := b.arms
	stop = func() {
		b.arms = before
		for _, p := range started {
			p.stop()
		}
	}
	add := func(p *process, arms ...*arm) {
		started = append(started, p)
		for _, a := range arms {
			a.base, a.proc = bareChat, p
			b.arms = append(b.arms[:len(b.arms):len(b.arms)], a)
		}
	}
	fresh := func(ctx context.Context, up string) (*process, error) { return b.startStored(ctx, up, "") }
	p, err := fresh(b.ctx, b.upstream.addr)
	if err != nil {
		return stop, err
	}
	add(p, &arm{name: oursStore, client: chatClient(), fresh: fresh}, &arm{name: oursStoreMessages, client: messagesClient(), fresh: fresh})
	redis, err := b.startRedis(b.ctx)
	if errors.Is(err, errNoRedis) {
		b.remark("Redis was left out: %v", err)
		return stop, nil
	}
	if err != nil {
		return stop, err
	}
	defer func() { started = append(started, redis) }() // it outlives the gateway that uses it
	withRedis := func(ctx context.Context, up string) (*process, error) {
		return b.startStored(ctx, up, redis.addr)
	}
	if p, err = withRedis(b.ctx, b.upstream.addr); err != nil {
		return stop, err
	}
	add(p, &arm{name: oursRedis, client: chatClient(), fresh: withRedis})
	return stop, nil
}

// startStored starts a gateway with a store of its own.
func (b *bench) startStored(ctx context.Context, upstream, redis string) (*process, error) {
	dir, err := os.MkdirTemp(b.dir, "store")
	if err != nil {
		return nil, err
	}
	return b.startGateway(ctx, upstream, setting{store: dir, redis: redis})
}

func (b *bench) storeRequests() error {
	const total = 1500
	b.say("  %d requests a round", total)
	for round := range b.size(11, 9) {
		for _, a := range b.choose(bareChat, ours, oursStore, oursRedis) {
			j := b.whole(a, 2<<10, 1<<10)
			j.Total = total
			if err := b.oneRequest(a, "store-request", round, j); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) storeEvents() error {
	const events, streams = 200, 150
	b.say("  bursts of %d, %d streams a round", events, streams)
	for round := range b.size(9, 7) {
		for _, a := range b.choose(bareChat, ours, oursStore, oursRedis, oursMessages, oursStoreMessages) {
			if err := b.oneBurst(a, "store-burst", 0, round, job{Events: events, Total: streams}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) storeMemory() error {
	if b.o.quick { // the limit is in KiB
		return b.memory("store-memory", b.choose(oursStore), 0, []int{min(4000, b.mostStreams())})
	}
	return b.memory("store-memory", b.choose(bareChat, ours, oursStore, oursMessages, oursStoreMessages), 0, []int{b.mostStreams()})
}
