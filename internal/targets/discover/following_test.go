package discover

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// at returns the options for an etcd.
func at(endpoints ...string) EtcdOptions { return EtcdOptions{Endpoints: endpoints} }

// follow runs a discovery on etcd.
func follow(t testing.TB, e EtcdOptions, o Options) (*audience, *Discovery) {
	t.Helper()
	src, err := Etcd(e)
	if err != nil {
		t.Fatal(err)
	}
	o.Sources = []Source{src}
	o.Confirm = cmp.Or(o.Confirm, 2*patience) // a guard never ends by itself while a test waits
	a, d, _ := begin(t, o)
	return a, d
}

func client(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	e, err := newEtcd(at(endpoints...))
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// put writes workers without a lease.
func put(t testing.TB, c *clientv3.Client, workers ...Worker) {
	t.Helper()
	for len(workers) > 0 {
		n := min(len(workers), 100)
		var ops []clientv3.Op
		for _, w := range workers[:n] {
			text, err := json.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, clientv3.OpPut("/isogloss/workers/"+w.ID, string(text)))
		}
		if _, err := c.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
		workers = workers[n:]
	}
}

// register runs a registrar for each worker until the returned function is called.
func register(t testing.TB, e EtcdOptions, ttl time.Duration, workers ...Worker) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() {
			if err := Register(ctx, RegisterOptions{Etcd: e, Worker: w, TTL: ttl}); err != nil {
				t.Error(err)
			}
		})
	}
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// whole waits until exactly this many workers are published, all of them live.
func whole(t testing.TB, d *Discovery, n int) time.Duration {
	t.Helper()
	return eventually(t, fmt.Sprintf("a snapshot of %d live workers", n), func() bool {
		s := d.Status()
		return len(s.Snapshot.Workers) == n && s.Kept == 0 && !s.Snapshot.Stale
	})
}

// resynced waits until a new worker and all others are published and live. It returns
// the time since etcd responded.
func resynced(t testing.TB, c *clientv3.Client, d *Discovery, n int) time.Duration {
	t.Helper()
	probe := worker("probe", "m")
	text, err := json.Marshal(probe)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "an etcd that takes a worker", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Put(ctx, "/isogloss/workers/probe", string(text))
		return err == nil
	})
	return whole(t, d, n+1)
}

// never fails the test if fewer workers were published at any time since.
func (a *audience) never(t testing.TB, since, fewer int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, s := range a.heard[since:] {
		if len(s.Workers) < fewer {
			t.Errorf("publication %d has %d workers, want no fewer than %d", since+i, len(s.Workers), fewer)
		}
	}
}

// wire is a connection to etcd that can be cut.
type wire struct {
	l     net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{l: l, to: to}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); w.set(true); running.Wait() })
	return w
}

func (w *wire) url() string { return "http://" + w.l.Addr().String() }

// set cuts the wire or restores it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func (w *wire) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer out.Close()
	w.mu.Lock()
	if w.cut {
		w.mu.Unlock()
		return
	}
	w.conns = append(w.conns, in, out)
	w.mu.Unlock()
	go func() { _, _ = io.Copy(out, in); out.Close() }()
	_, _ = io.Copy(in, out)
}

func leaderOf(t testing.TB, cluster []*storetest.Server) int {
	t.Helper()
	for i, s := range cluster {
		c := client(t, s.URL)
		status, err := c.Status(t.Context(), s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if status.Leader == status.Header.MemberId {
			return i
		}
	}
	t.Fatal("nobody leads")
	return 0
}
