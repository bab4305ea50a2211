package quota

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// clock is a clock that a test sets.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// ledger is a Ledger whose sums the test sets. It counts queries; without sums it blocks.
type ledger struct {
	mu    sync.Mutex
	spent func(account string, since time.Time) (usage.Money, error)
	logs  map[string][]usage.Total // by account
	asked int                      // number of queries
	open  int                      // concurrent queries
	most  int                      // maximum of open
}

func (l *ledger) Spent(ctx context.Context, account string, since ...time.Time) (out Spent, err error) {
	l.mu.Lock()
	l.asked++
	l.open++
	l.most = max(l.most, l.open)
	spent := l.spent
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.open--
		l.mu.Unlock()
	}()
	if spent == nil {
		<-ctx.Done()
		return out, ctx.Err()
	}
	for _, from := range since {
		sum, err := spent(account, from)
		if err != nil {
			return out, err
		}
		out.Since = append(out.Since, sum)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out.Logs = l.logs[account]
	return out, nil
}

// testLog is the log of a process.
type testLog struct {
	name string

	mu    sync.Mutex
	spent map[string]usage.Money // by account
}

func newLog(name string) *testLog { return &testLog{name: name, spent: map[string]usage.Money{}} }

func (l *testLog) Name() string { return l.name }

func (l *testLog) Shared() bool { return false }

func (l *testLog) Spent(account string) ([]usage.Total, usage.Money) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum, ok := l.spent[account]
	if !ok {
		return nil, 0
	}
	return []usage.Total{{Log: l.name, Account: account, Spent: sum}}, 0
}

// add adds the cost of a request.
func (l *testLog) add(accounts []Account, cost usage.Money) (t usage.Totals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range accounts {
		if strings.Contains(a.ID, "#") { // a log has owners, and their first accounts are in the list
			continue
		}
		l.spent[a.ID] += cost
		switch sum := l.spent[a.ID]; strings.Split(a.ID, ":")[0] {
		case "key":
			t.Key = sum
		case "team":
			t.Team = sum
		default:
			t.Org = sum
		}
	}
	return t
}

// logOf returns the log of a limiter that a test has made with one.
func logOf(l *Limiter) *testLog {
	switch b := l.back.(type) {
	case *memory:
		return b.logs.(*testLog)
	default:
		return b.(*redisBackend).options.Logs.(*testLog)
	}
}

// settle settles a request after it was written to the log.
func settle(h Hold, tokens int64, cost usage.Money) {
	if h.r == nil {
		return
	}
	var totals usage.Totals
	if !h.r.done.Load() {
		totals = logOf(h.r.limiter).add(h.r.request.Accounts, cost)
	}
	h.Settle(tokens, cost, totals)
}

// charge counts a request of a dead process, whose log was found.
func (n *node) charge(log *testLog, org string, accounts []Account, cost usage.Money) {
	log.add(accounts, cost)
	for _, a := range accounts {
		if strings.Contains(a.ID, "#") {
			continue
		}
		totals, _ := log.Spent(a.ID)
		totals[0].Org = org
		n.SetTotal(totals[0])
	}
}

// newMemory returns a limiter with a log.
func newMemory(o Options) *Limiter {
	o.Logs = newLog("memory")
	return NewMemory(o)
}

// node is a running Limiter.
type node struct {
	*Limiter
	stop func() // ends Run without Close, as if the process had died
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte("\n"))
}

func start(t testing.TB, k *Limiter, log *lockedBuffer) *node {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	n := &node{Limiter: k, log: log, stop: func() { cancel(); <-done }}
	t.Cleanup(func() {
		if log != nil && t.Failed() {
			t.Log(log)
		}
		n.stop()
		k.Close()
	})
	return n
}

// connect opens a client with the given timeout or the default one.
func connect(t testing.TB, s *storetest.Server, timeout ...time.Duration) *redis.Client {
	t.Helper()
	c, err := redis.New(redis.Options{URL: s.URL, Scripts: Scripts(), Timeout: append(timeout, 0)[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func redisNode(t testing.TB, s *storetest.Server, o Options, timeout ...time.Duration) *node {
	t.Helper()
	o.Redis, o.Logs = connect(t, s, timeout...), newLog(rand.Text())
	log := &lockedBuffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	return start(t, NewRedis(o), log)
}

// redisNodes starts n nodes on one Redis and waits until each counts all of them.
func redisNodes(t testing.TB, s *storetest.Server, n int, o Options, timeout ...time.Duration) []*node {
	t.Helper()
	if o.Heartbeat == 0 {
		o.Heartbeat = 50 * time.Millisecond
	}
	var all []*node
	for i := range n {
		o.Node = fmt.Sprintf("n%d", i)
		all = append(all, redisNode(t, s, o, timeout...))
	}
	for _, k := range all {
		eventually(t, "all nodes count each other", func() bool { s := k.Snapshot(); return s.Nodes == n && !s.Lost })
	}
	return all
}

// eventually waits until a condition holds that depends on another process. The deadline is far
// beyond what a busy machine needs.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testrig.Eventually(t, what, ok)
}

const pollTimeout = testrig.Patience

// poll calls ok until it returns true, and reports whether it did before the deadline.
func poll(ok func() bool) bool {
	return testrig.Until(context.Background(), pollTimeout, "", ok) == nil
}

// settled waits until Redis has confirmed all changes of the node. It returns allowances.
func (n *node) settled(t testing.TB) {
	t.Helper()
	eventually(t, "Redis has confirmed all changes", func() bool {
		s := n.Snapshot()
		r, ok := n.back.(*redisBackend)
		if !ok {
			return true
		}
		r.reportAll()
		if s.Queued+s.Merged > 0 || r.hasAllowances() {
			return false
		}
		for _, s := range r.servers.Load().all {
			s.sendMu.Lock() // changes in flight are no longer queued
			empty := s.queue.isEmpty()
			s.sendMu.Unlock()
			if !empty {
				return false
			}
		}
		return true
	})
}

// hasAllowances reports whether the node has an allowance, or something to report.
func (r *redisBackend) hasAllowances() bool {
	for i := range r.mirror.shards {
		p := &r.mirror.shards[i]
		p.mu.Lock()
		n := len(p.withAllowance)
		p.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// inRedis reads an account from Redis.
func inRedis(t testing.TB, n *node, org, account string) (open, reserved, spent int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := n.Count(ctx, org, account)
	if err != nil {
		t.Fatal(err)
	}
	return c.Open, int64(c.Reserved), int64(c.Spent)
}

// endLeases ends the leases of a node on an account at once, instead of waiting for their end.
func endLeases(t testing.TB, s *storetest.Server, n *node, org, account string) {
	t.Helper()
	const text = `
		for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
			if name == ARGV[1] then
				local id, open, held = struct.unpack('<dddd', redis.call('HGET', KEYS[2], name))
				redis.call('HSET', KEYS[2], name, struct.pack('<dddd', id, open, held, 1))
			end
		end
		local a = {struct.unpack('<ddddddddddddd', redis.call('GET', KEYS[1]))}
		a[8], a[14] = 1, nil -- when the first lease may expire
		redis.call('SET', KEYS[1], struct.pack('<ddddddddddddd', unpack(a)), 'KEEPTTL')
		return redis.call('HEXISTS', KEYS[2], ARGV[1])`
	name := script.Key(org, "a:", account)
	if had, err := storetest.RedisCLI(s.Addr, "EVAL", text, "2", name, name+":n", n.back.(*redisBackend).node); err != nil || strings.TrimSpace(had) != "1" {
		t.Fatalf("the node has no lease on %s: %s, %v", account, had, err)
	}
}

// patient is a timeout for tests that do not test it: the machine may be busy.
const patient = 30 * time.Second
