package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// The size of the company whose ledger is made.
const (
	orgs     = 20
	teams    = 5 // of each organisation
	keys     = 1000
	models   = 30
	users    = 500
	audited  = 20_000
	batch    = 5_000
	lastDays = 30
)

// seed fills a store with organisations, teams, keys, audit entries and the requests of the last 30
// days. The same number of rows gives the same rows, except for the times.
func seed(ctx context.Context, address string, rows int) error {
	s, err := store.Open(ctx, address, store.Options{Migrate: true, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // everything is committed
	now := time.Now().UTC()
	if err := seedTenants(ctx, s, now); err != nil {
		return err
	}
	g := generator{random: rand.New(rand.NewPCG(1, 2)), end: now, step: lastDays * 24 * time.Hour / time.Duration(max(rows, 1))} //nolint:gosec // G404: a test must be repeatable
	for done := 0; done < rows; {
		n := min(batch, rows-done)
		b := usage.Batch{Log: "seed", After: int64(done), To: int64(done + n), Rows: make([]usage.Row, n)}
		for i := range b.Rows {
			b.Rows[i] = g.row(rows - done - i)
		}
		if _, err := s.Append(ctx, b); err != nil {
			return err
		}
		done += n
	}
	return s.Finish(ctx, "seed")
}

func orgOf(i int) string  { return fmt.Sprintf("org-%02d", i%orgs) }
func teamOf(i int) string { return fmt.Sprintf("team-%d", i/orgs%teams) }
func keyOf(i int) string  { return fmt.Sprintf("seeded%016d", i) }

func seedTenants(ctx context.Context, s *store.Store, now time.Time) error {
	for i := range orgs {
		if err := s.CreateTenant(ctx, store.Tenant{Org: orgOf(i), Name: fmt.Sprint("Organisation ", i), Created: now}); err != nil {
			return err
		}
	}
	for i := range orgs * teams {
		t := store.Tenant{Org: orgOf(i), Team: teamOf(i), Name: fmt.Sprint("Team ", i), Created: now, Limit: quota.Limit{Budget: 1000 * usage.Dollar, Window: lastDays * 24 * time.Hour}}
		if err := s.CreateTenant(ctx, t); err != nil {
			return err
		}
	}
	for i := range keys {
		r := access.Record{ID: keyOf(i), Name: fmt.Sprint("service ", i), Org: orgOf(i), Team: teamOf(i), Created: now, Models: []string{"*"},
			Digests: []access.Digest{{Pepper: 1, Sum: sha256.Sum256([]byte(keyOf(i)))}}}
		if err := s.CreateKey(ctx, r); err != nil {
			return err
		}
	}
	for i := range audited {
		e := store.Entry{At: now, Actor: "seed", Org: orgOf(i), Address: "127.0.0.1", Action: "update-key", Object: "key:" + keyOf(i%keys)}
		if err := s.Audit(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// generator makes rows of the ledger.
type generator struct {
	random *rand.Rand
	end    time.Time
	step   time.Duration
}

var (
	outcomes = []usage.Outcome{usage.Failed, usage.Refused, usage.Left, usage.Cached, usage.Lost}
	statuses = map[usage.Outcome]int{usage.Answered: 200, usage.Failed: 502, usage.Refused: 429, usage.Left: 499, usage.Cached: 200, usage.Lost: 200}
)

// row returns a row that began some steps before the end. Nine of ten requests succeed, and one of
// twenty needs a second attempt.
func (g *generator) row(stepsBack int) usage.Row {
	i := int(g.random.Uint32())
	key := int(keys * math.Pow(g.random.Float64(), 4)) // a few keys send most requests
	model := (key + i%2) % models
	r := usage.Row{
		ID: g.id(), Node: fmt.Sprint("gw-", i%3), Key: keyOf(key), Org: orgOf(key), Team: teamOf(key),
		Began: g.end.Add(-time.Duration(stepsBack) * g.step), Took: time.Duration(200+i%20_000) * time.Millisecond,
		Endpoint: "chat_completions", Dialect: "openai-chat", Model: fmt.Sprintf("model-%02d", model), Target: fmt.Sprintf("provider-%d/model-%02d", key%4, model),
		Stream: i%2 == 0, Status: 200, Outcome: usage.Answered, Cost: new(usage.Money(i % 100_000_000)),
		Usage: llm.Usage{Input: int64(100 + i%8000), Output: int64(10 + i%900)},
	}
	if i%10 == 0 {
		r.Outcome = outcomes[i/10%len(outcomes)]
		r.Status = statuses[r.Outcome]
	}
	r.Tags = []usage.Tag{{Key: "feature", Value: fmt.Sprint("feature-", key%8)}}
	if i%4 == 2 {
		r.User = fmt.Sprint("user-", i%users)
	}
	if i%3 == 0 {
		r.Fidelity, r.Losses = "dropped", []usage.Loss{{Code: "seed.unsupported", Path: "seed"}, {Code: "logit_bias.unsupported", Path: "logit_bias"}}
	} else {
		r.Fidelity = "exact"
	}
	r.Agent, r.Queue, r.FirstByte, r.FirstToken = "OpenAI/Python 2.8.1", time.Millisecond, r.Took/10, r.Took/5
	if key%4 == 1 {
		r.Person = fmt.Sprintf("person-%03d@example.com", key)
	}
	last := usage.Attempt{Target: r.Target, Began: r.Began.Add(time.Millisecond), Took: r.Took - time.Millisecond, Status: r.Status, Usage: r.Usage, Cost: r.Cost, Charged: true,
		Times: usage.Times{FirstByte: r.FirstByte, FirstToken: r.FirstToken}}
	if i%20 == 1 {
		first := usage.Attempt{Target: "provider-9/model", Began: last.Began, Took: 50 * time.Millisecond, Status: 503, Fault: "overloaded"}
		last.Began = last.Began.Add(first.Took)
		r.Attempts = append(r.Attempts, first)
	}
	if r.Outcome != usage.Refused && r.Outcome != usage.Cached {
		r.Attempts = append(r.Attempts, last)
	}
	return r
}

// id returns a request id.
func (g *generator) id() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], g.random.Uint64())
	binary.BigEndian.PutUint64(b[8:], g.random.Uint64())
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
