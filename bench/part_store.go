package main

import (
	"context"
	"os"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// storePart measures keys, limits and the ledger: gateways with and without a store, and
// bare, in the same rounds. CPU includes what a gateway does after the response.
func (b *bench) storePart() {
	arms, kept := b.arms, len(b.kept)
	defer func() { // the gateways with a store poll it every second
		b.arms = arms
		b.release(kept)
	}()
	b.addStores()
	b.storeRequests()
	b.storeEvents()
	b.paced("store-paced", b.choose(bareChat, ours, oursStore), storeStreams, 5)
	b.storeMemory()
	if b.o.quick {
		return
	}
	b.look()
	b.say("  latency at %d/s", storeRate)
	b.latencies(b.choose(direct, bareChat, ours, oursStore, oursRedis), "store", storeRate, storeRate, 5)
}

// A load that a busy machine can carry, so that latency is not that of a queue.
const (
	storeRate    = 500 // requests a second
	storeStreams = 250 // paced streams
)

// addStores adds the arms with a store: SQLite without and with Redis, PostgreSQL without and with a log.
func (b *bench) addStores() {
	add := func(s storage, arms ...*arm) {
		fresh := func(ctx context.Context, up string) *process {
			s.data = testrig.Must(os.MkdirTemp(b.dir, "store"))
			return b.startGateway(ctx, up, setting{store: &s})
		}
		p := b.shared(fresh)
		for _, a := range arms {
			a.base, a.proc, a.fresh = bareChat, p, fresh
			b.arms = append(b.arms[:len(b.arms):len(b.arms)], a)
		}
	}
	add(storage{}, &arm{name: oursStore, client: testrig.Chat}, &arm{name: oursStoreMessages, client: testrig.Messages})
	if b.installed("redis-server") {
		add(storage{redis: b.shared(b.startRedis).addr}, &arm{name: oursRedis, client: testrig.Chat})
	}
	if !b.installed(storetest.PostgresProgram("postgres")) {
		return
	}
	add(storage{postgres: b.shared(b.startPostgres).addr}, &arm{name: oursPostgres, client: testrig.Chat})
	if !b.o.quick && b.installed("nats-server") { // rows arrive seconds later
		add(storage{postgres: b.shared(b.startPostgres).addr, nats: b.shared(b.startNATS).addr}, &arm{name: oursLog, client: testrig.Chat})
	}
}

// turned returns arms with another first one in each round: the first is asked after the machine was idle while the
// rows of the last one arrived, which costs CPU time.
func turned(arms []*arm, round int) []*arm {
	n := round % len(arms)
	return slices.Concat(arms[n:], arms[:n])
}

func (b *bench) storeRequests() {
	const total = 1500
	b.say("  %d requests a round", total)
	for round := range b.size(11, 9) {
		for _, a := range turned(b.choose(bareChat, ours, oursStore, oursRedis, oursPostgres, oursLog), round) {
			j := b.whole(a, 2<<10, 1<<10)
			j.Total = total
			b.oneRequest(a, "store-request", round, j)
		}
	}
}

func (b *bench) storeEvents() {
	const events, streams = 200, 150
	b.say("  bursts of %d, %d streams a round", events, streams)
	for round := range b.size(9, 7) {
		for _, a := range turned(b.choose(bareChat, ours, oursStore, oursRedis, oursMessages, oursStoreMessages), round) {
			b.oneBurst(a, "store-burst", 0, round, job{Events: events, Total: streams})
		}
	}
}

func (b *bench) storeMemory() {
	if b.o.quick { // the limit is in KiB
		b.memory("store-memory", b.choose(oursStore), 0, []int{quickStreams})
		return
	}
	b.memory("store-memory", b.choose(bareChat, ours, oursStore, oursMessages, oursStoreMessages), 0, []int{b.mostStreams()})
}
