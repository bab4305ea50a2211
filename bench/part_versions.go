package main

import (
	"context"
	"os"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// versionsPart measures the pairs of versions of HTTP: bare and the gateway with two settings of the collector, and the
// gateway with stores.
func (b *bench) versionsPart() {
	all := pairs()
	if b.o.quick {
		all = []versions{{h2, h2}} // the other parts have h1/h1
	}
	for _, v := range all {
		b.onePair(v)
	}
}

// onePair measures one pair with processes of its own.
func (b *bench) onePair(v versions) {
	b.say("  %s", v)
	arms, kept := b.arms, len(b.kept)
	defer func() {
		b.arms = arms
		b.release(kept)
	}()
	up := b.startUpstreamWith(b.ctx, "", v.up)
	b.kept = append(b.kept, up)
	b.arms = b.pairArms(v, up.addr)
	for round := range b.size(7, 5) {
		for _, a := range turned(b.arms, round) {
			j := b.whole(a, 2<<10, 1<<10)
			j.Total = 1000
			b.oneRequest(a, "http-request", round, j)
			b.oneBurst(a, "http-burst", 0, round, job{Events: 200, Total: 80})
		}
	}
	if !b.o.quick {
		b.paced("http-paced", b.choose(pairBare.of(v), pairOurs.of(v), pairMessages.of(v)), 250, 3)
	}
	stages := []int{1000, 6000}
	if b.o.quick {
		stages = []int{1000}
	}
	for _, a := range b.choose(pairBare.of(v), pairOurs.of(v), pairMessages.of(v)) {
		b.oneMemoryOf("http-memory", a, 0, stages, func(ctx context.Context) *process { return b.startUpstreamWith(ctx, "", v.up) })
	}
}

// pairArm is an arm of each pair of versions.
type pairArm string

const (
	pairBare        pairArm = "bare"
	pairOurs        pairArm = "isogloss"
	pairMessages    pairArm = "isogloss, Messages on Chat"
	pairBareDefault pairArm = "bare, GOGC=100"
	pairOursDefault pairArm = "isogloss, GOGC=100"
	pairSQLite      pairArm = "isogloss, SQLite"
	pairRedis       pairArm = "isogloss, SQLite and Redis"
	pairPostgres    pairArm = "isogloss, PostgreSQL"
)

// of returns the name of the arm of a pair.
func (a pairArm) of(v versions) string { return v.String() + ", " + string(a) }

// lane returns how the arm relays.
func (a pairArm) lane() string {
	if a == pairMessages {
		return "Messages client on Chat upstream"
	}
	return "verbatim"
}

// pairArms starts the processes of a pair in front of an upstream. The collector of bare is that of the gateway, or
// Go's in both.
func (b *bench) pairArms(v versions, up string) (arms []*arm) {
	add := func(name, base pairArm, client testrig.Dialect, fresh func(context.Context, string) *process, p *process) *process {
		if p == nil {
			p = fresh(b.ctx, up)
			b.kept = append(b.kept, p)
		}
		arms = append(arms, &arm{name: name.of(v), base: base.of(v), proc: p, client: client, fresh: fresh})
		return p
	}
	bare := func(env ...string) func(context.Context, string) *process {
		return func(ctx context.Context, up string) *process { return b.startBareWith(ctx, up, v, env) }
	}
	gateway := func(s *storage, env ...string) func(context.Context, string) *process {
		return func(ctx context.Context, up string) *process {
			if s != nil {
				own := *s
				own.data = testrig.Must(os.MkdirTemp(b.dir, "store"))
				return b.startGateway(ctx, up, setting{http: v, store: &own, env: env})
			}
			return b.startGateway(ctx, up, setting{http: v, env: env})
		}
	}
	const goDefault = "GOGC=100"
	add(pairBare, pairBare, testrig.Chat, bare(), nil)
	p := add(pairOurs, pairBare, testrig.Chat, gateway(nil), nil)
	add(pairMessages, pairBare, testrig.Messages, gateway(nil), p)
	if b.o.quick {
		return arms
	}
	add(pairBareDefault, pairBareDefault, testrig.Chat, bare(goDefault), nil)
	add(pairOursDefault, pairBareDefault, testrig.Chat, gateway(nil, goDefault), nil)
	add(pairSQLite, pairBare, testrig.Chat, gateway(&storage{}), nil)
	if b.installed("redis-server") {
		add(pairRedis, pairBare, testrig.Chat, gateway(&storage{redis: b.shared(b.startRedis).addr}), nil)
	}
	if b.installed(storetest.PostgresProgram("postgres")) {
		add(pairPostgres, pairBare, testrig.Chat, gateway(&storage{postgres: b.shared(b.startPostgres).addr}), nil)
	}
	return arms
}
