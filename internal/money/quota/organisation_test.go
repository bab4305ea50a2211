package quota_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/timing"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

var (
	fleetNodes = flag.Int("nodes", 30, "nodes of TestOneOrganisation")
	fleetTime  = flag.Duration("time", 2*time.Second, "length of the first part of TestOneOrganisation")
	fleetLease = flag.Duration("lease", 6*time.Second, "leases of TestOneOrganisation")
	fleetLate  = flag.Duration("late", 200*time.Millisecond, "time between two writes into PostgreSQL in TestOneOrganisation")
)

// member is a node with a real limiter and a log.
type member struct {
	*quota.Limiter
	log   string
	spent atomic.Int64 // of the organisation under test
	dead  atomic.Bool
	stop  func()
	held  int64 // reserved in Redis when the node died

	mu      sync.Mutex // guards written and rows
	written int64      // the part of spent that the ledger has
	rows    int64
}

// Name, Shared and Spent make a member the log of its limiter.
func (m *member) Name() string { return m.log }

func (m *member) Shared() bool { return false }

func (m *member) Spent(account string) ([]usage.Total, usage.Money) {
	return []usage.Total{{Log: m.log, Account: account, Spent: usage.Money(m.spent.Load())}}, 0
}

// late is the ledger in PostgreSQL. It gets rows some time after the requests.
type late struct {
	*store.Store
	queries atomic.Int64
}

func (l *late) Spent(ctx context.Context, account string, since ...time.Time) (quota.Spent, error) {
	l.queries.Add(1)
	return l.Store.Spent(ctx, account, since...)
}

// write stores what a node has spent since the last time.
func (l *late) write(t *testing.T, m *member, org string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.spent.Load()
	if sum == m.written {
		return
	}
	now, cost := time.Now(), usage.Money(sum-m.written)
	r := usage.Row{
		ID: uuid.NewString(), Node: m.log, Key: "0123456789abcdefghijk1", Org: org, Began: now, Took: time.Millisecond, Endpoint: "chat_completions", Dialect: "openai-chat",
		Model: "m", Target: "p/m", Status: 200, Outcome: usage.Answered, Cost: &cost, Attempts: []usage.Attempt{{Target: "p/m", Began: now, Status: 200, Cost: &cost, Charged: true}},
	}
	batch := usage.Batch{Log: m.log, After: m.rows, To: m.rows + 1, Rows: []usage.Row{r}, Positions: []int64{m.rows + 1}}
	for try := 1; ; try++ { // as the spool does: on a busy machine PostgreSQL may end a transaction that waits
		_, err := l.Append(context.Background(), batch)
		if err == nil {
			break
		}
		if try == 10 {
			t.Error(err)
			return
		}
	}
	m.written, m.rows = sum, m.rows+1
}

// fleet is some nodes that share a Redis and a PostgreSQL.
type fleet struct {
	t      *testing.T
	redis  *storetest.Server
	ledger *late
	nodes  []*member
}

func newFleet(t *testing.T, nodes int) *fleet {
	s, err := store.Open(context.Background(), storetest.Postgres(t).URL, store.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &fleet{t: t, redis: storetest.Redis(t), ledger: &late{Store: s}}
	for i := range nodes {
		c, err := redis.New(redis.Options{URL: f.redis.URL, Scripts: quota.Scripts(), Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		m := &member{log: fmt.Sprintf("node-%d", i)}
		m.Limiter = quota.NewRedis(quota.Options{Redis: c, Node: m.log, Ledger: f.ledger, Logs: m, Lease: *fleetLease, Heartbeat: 200 * time.Millisecond})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { m.Run(ctx); close(done) }()
		m.stop = func() { cancel(); <-done }
		t.Cleanup(func() { m.stop(); m.Close() })
		f.nodes = append(f.nodes, m)
	}
	for _, m := range f.nodes {
		testrig.Eventually(t, "the nodes count each other", func() bool { s := m.Snapshot(); return s.Nodes == nodes && !s.Lost })
	}
	return f
}

const (
	runCost = 10_000 // reserved by a request; it spends up to 4,000
	runMean = 2_000
)

// warm sends requests of an organisation to each node until the node has an allowance. Before that each request
// calls Redis, as long as PostgreSQL does not respond.
func (f *fleet) warm(org string, budget usage.Money) {
	request := quota.Request{Org: org, Accounts: []quota.Account{{ID: "org:" + org, Limit: quota.Limit{Budget: budget}}}, Cost: runCost}
	for _, m := range f.nodes {
		testrig.Eventually(f.t, "the node has an allowance", func() bool {
			request.ID = uuid.NewString()
			if hold, refusal := m.Reserve(f.t.Context(), request); refusal == nil {
				hold.Settle(0, 0, usage.Totals{Org: usage.Money(m.spent.Load())})
			}
			return m.Snapshot().Sliced > 0
		})
	}
}

// run sends requests of an organisation to all nodes for some time. With deaths it continues until the budget is spent and
// the leases of dead nodes have ended: when a third of the budget is spent, some nodes die with their open requests. It
// returns how many were admitted, how many were refused, and what was spent.
func (f *fleet) run(org string, budget usage.Money, length time.Duration, deaths int) (admitted, refused, spent int64) {
	accounts := []quota.Account{{ID: "org:" + org, Limit: quota.Limit{Budget: budget}}}
	if deaths > 0 {
		length = 3 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var wg sync.WaitGroup
	var in, out, sum atomic.Int64
	for range 64 {
		wg.Go(func() {
			var open [8]struct {
				m    *member
				hold quota.Hold
			}
			for i := 0; ctx.Err() == nil; i++ {
				o := &open[i%len(open)]
				if o.m != nil && !o.m.dead.Load() {
					cost := rand.Int64N(2*runMean) + 1
					sum.Add(cost)
					o.hold.Settle(0, usage.Money(cost), usage.Totals{Org: usage.Money(o.m.spent.Add(cost))})
				}
				o.m = f.nodes[rand.IntN(len(f.nodes))]
				if o.m.dead.Load() {
					o.m = nil
					continue
				}
				var refusal *quota.Refusal
				if o.hold, refusal = o.m.Reserve(ctx, quota.Request{ID: uuid.NewString(), Org: org, Accounts: accounts, Cost: runCost}); refusal != nil {
					o.m = nil
					out.Add(1)
					timing.Sleep(ctx, time.Millisecond) // a client that is refused waits
					continue
				}
				in.Add(1)
			}
			for _, o := range open {
				if o.m != nil && !o.m.dead.Load() {
					o.hold.Settle(0, 0, usage.Totals{Org: usage.Money(o.m.spent.Load())})
				}
			}
		})
	}
	wg.Go(func() {
		for ; ctx.Err() == nil; timing.Sleep(ctx, *fleetLate) {
			for _, m := range f.nodes {
				f.ledger.write(f.t, m, org)
			}
		}
	})
	wg.Go(func() {
		reach := func(percent int64) {
			_ = testrig.Until(ctx, length, "", func() bool { return sum.Load() >= int64(budget)/100*percent })
		}
		reach(30)
		for _, m := range f.nodes[:deaths] {
			m.dead.Store(true)
			m.stop()
			m.held = f.number(org, heldBy, m.log)
		}
		if deaths == 0 {
			return
		}
		reach(98)
		_ = testrig.Until(ctx, length, "", func() bool { // a request finds that the leases have ended
			return !slices.ContainsFunc(f.nodes[:deaths], func(m *member) bool { return f.number(org, heldBy, m.log) > 0 })
		})
		after := out.Load()
		_ = testrig.Until(ctx, length, "", func() bool { return out.Load() > after+1000 })
		cancel()
	})
	wg.Wait()
	return in.Load(), out.Load(), sum.Load()
}

// Scripts that read an account. The argument is the name of a log, which is also that of its node.
const (
	heldBy = `local sum, all = 0, redis.call('HGETALL', KEYS[1] .. ':n')
		for n = 1, #all, 2 do
			local _, _, held = struct.unpack('<dddd', all[n + 1])
			if string.sub(all[n], 1, #ARGV[1] + 1) == ARGV[1] .. '.' then sum = sum + held end
		end
		return sum`
	totalOf = `local text = redis.call('HGET', KEYS[1] .. ':l', ARGV[1])
		if not text then return 0 end
		local sum = struct.unpack('<d', text)
		return sum`
)

// number reads a number of the account of an organisation in Redis.
func (f *fleet) number(org, script, log string) (n int64) {
	text, err := storetest.RedisCLI(strings.TrimPrefix(f.redis.URL, "redis://"), "eval", script, "1", "quota2:{o:"+org+"}:a:org:"+org, log)
	if _, scan := fmt.Sscan(text, &n); err != nil || scan != nil {
		f.t.Errorf("%q, %v, %v", text, err, scan)
	}
	return n
}

// calls returns how many scripts Redis has run, and its CPU time.
func (f *fleet) calls() (n int64, cpu float64) {
	text, err := storetest.RedisCLI(strings.TrimPrefix(f.redis.URL, "redis://"), "info", "everything")
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.FieldsSeq(text) {
		var seconds float64
		if k, _ := fmt.Sscanf(line, "used_cpu_sys:%f", &seconds); k == 1 {
			cpu += seconds
		}
		if k, _ := fmt.Sscanf(line, "used_cpu_user:%f", &seconds); k == 1 {
			cpu += seconds
		}
		_, _ = fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &n) // other lines are about other commands
	}
	return n, cpu
}

// TestOneOrganisation sends as many requests of one organisation as the machine can to many nodes with a real Redis
// and a real PostgreSQL. The number of calls must not grow with the requests. Then a budget is spent while nodes die.
func TestOneOrganisation(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for some seconds")
	}
	f := newFleet(t, *fleetNodes)
	start := time.Now()
	f.warm("large", 1_000_000*usage.Dollar)
	before, cpuBefore := f.calls()
	began := time.Now()
	admitted, refused, spent := f.run("large", 1_000_000*usage.Dollar, *fleetTime, 0)
	took := time.Since(began).Seconds() // longer than planned on a busy machine
	after, cpu := f.calls()
	t.Logf("%d nodes: %.0f requests a second; %.4f calls of Redis and %.2f µs of its CPU for each; %d queries of PostgreSQL by the limiters",
		*fleetNodes, float64(admitted)/took, float64(after-before)/float64(admitted), (cpu-cpuBefore)*1e6/float64(admitted), f.ledger.queries.Load())
	if refused > 0 || admitted == 0 {
		t.Errorf("%d were admitted, %d refused", admitted, refused)
	}
	// A node has some calls a second for reports, refills and heartbeats.
	if most := int64(*fleetNodes) * int64(200+40*took); after-before > most {
		t.Errorf("%d calls of Redis for %d requests, want at most %d", after-before, admitted, most)
	}
	// A node has one query at a time until the account is seeded. A busy PostgreSQL does not answer in time.
	if n, most := f.ledger.queries.Load(), int64(*fleetNodes)*int64(4+8*time.Since(start).Seconds()); n > most {
		t.Errorf("the limiters have queried PostgreSQL %d times for %d requests, want at most %d", n, admitted, most)
	}

	for _, m := range f.nodes { // totals are of one organisation
		m.mu.Lock()
		m.spent.Store(0)
		m.written = 0
		m.mu.Unlock()
	}
	budget := usage.Money(spent) / 2
	admitted, refused, spent = f.run("exhausted", budget, 0, *fleetNodes/10)
	t.Logf("a budget of %d: %d admitted, %d refused, %d spent (%.4f), with %d dead nodes", budget, admitted, refused, spent, float64(spent)/float64(budget), *fleetNodes/10)
	f.checkSpent("exhausted", budget, spent)
	if float64(spent) < 0.98*float64(budget) || refused == 0 {
		t.Errorf("only %d were spent of a budget of %d; %d requests were refused", spent, budget, refused)
	}
}

// checkSpent compares what an organisation has spent with its budget. Redis never knows more than the budget. More can be
// spent only by dead nodes, if PostgreSQL did not have their last rows when their leases ended: at most what they had reserved.
func (f *fleet) checkSpent(org string, budget usage.Money, spent int64) {
	var known, late, held, fallback int64
	for _, m := range f.nodes {
		fallback += m.Snapshot().Fallback
		if m.dead.Load() {
			total := f.number(org, totalOf, m.log)
			known, held, late = known+total, held+m.held, late+m.spent.Load()-total
			continue
		}
		total := int64(0)
		if err := testrig.Until(f.t.Context(), testrig.Patience, "", func() bool {
			total = f.number(org, totalOf, m.log)
			return total == m.spent.Load()
		}); err != nil {
			f.t.Errorf("%s has spent %d, and Redis knows %d of it", m.log, m.spent.Load(), total)
		}
		known += total
	}
	part := func(n int64) float64 { return float64(n) / float64(budget) }
	f.t.Logf("Redis knows %d (%.4f); dead nodes have spent %d (%.4f) that PostgreSQL did not have when their leases ended, of %d (%.4f) that they had reserved; %d reservations were from shares",
		known, part(known), late, part(late), held, part(held), fallback)
	most := int64(budget)
	if fallback > 0 { // PostgreSQL did not respond in time, and each node had its part of a hundredth
		most += int64(budget) / 100
	}
	if known > most {
		f.t.Errorf("Redis knows that %d were spent of a budget of %d", known, budget)
	}
	if late > held {
		f.t.Errorf("dead nodes have spent %d that was not known when their leases ended, and had reserved %d", late, held)
	}
	if spent != known+late {
		f.t.Errorf("%d were spent, Redis knows %d, and dead nodes have %d more", spent, known, late)
	}
}
