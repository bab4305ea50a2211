package quota

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

func TestMain(m *testing.M) {
	// The client looks at a cluster's nodes once more some time after it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// clock is a time that a test sets.
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

// ledger has spent what a test says, and counts how often it was asked.
type ledger struct {
	mu    sync.Mutex
	spent func(account string, since time.Time) (usage.Money, error)
	asked int
	open  int
	most  int
}

func (l *ledger) Spent(ctx context.Context, account string, since time.Time) (usage.Money, error) {
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
		return 0, ctx.Err()
	}
	return spent(account, since)
}

// node is a Keeper that runs.
type node struct {
	*Keeper
	stop func() // ends Run, and nothing else: as a process dies
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

func start(t testing.TB, k *Keeper, log *lockedBuffer) *node {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	n := &node{Keeper: k, log: log, stop: func() { cancel(); <-done }}
	t.Cleanup(func() {
		n.stop()
		k.Close()
	})
	return n
}

func redisNode(t testing.TB, s *storetest.Server, o Options) *node {
	t.Helper()
	o.Redis = s.URL
	log := &lockedBuffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	k, err := NewRedis(o)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, k, log)
}

// redisNodes runs some on one Redis and waits until each knows of all.
func redisNodes(t testing.TB, s *storetest.Server, n int, o Options) []*node {
	t.Helper()
	o.Heartbeat = 50 * time.Millisecond
	var all []*node
	for i := range n {
		o.Node = fmt.Sprintf("n%d", i)
		all = append(all, redisNode(t, s, o))
	}
	for _, k := range all {
		eventually(t, 5*time.Second, "all nodes know of each other", func() bool { return k.Snapshot().Nodes == n })
	}
	return all
}

// eventually waits for something that other processes do.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("after %v it is not so that %s", within, what)
		}
		time.Sleep(5 * time.Millisecond) // what is waited for is another process
	}
}

func (n *node) settled(t testing.TB) {
	t.Helper()
	eventually(t, 5*time.Second, "all is settled", func() bool {
		s := n.Snapshot()
		r, ok := n.back.(*remote)
		if !ok {
			return true
		}
		if s.Queued+s.Merged > 0 {
			return false
		}
		r.sending.Lock() // what is on its way is no longer queued
		defer r.sending.Unlock()
		return r.queue.isEmpty()
	})
}

// inRedis reads an account as Redis has it.
func inRedis(t testing.TB, n *node, org, account string) (open, reserved, spent int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := n.Count(ctx, org, account)
	if err != nil {
		t.Fatal(err)
	}
	return c.Open, int64(c.Reserved), int64(c.Spent)
}

// patient is a timeout for tests that are not about it: the machine may be busy.
const patient = 5 * time.Second
