package discover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestEtcdListsAllPages(t *testing.T) {
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	put(t, c, fleet(2*pageSize+7, "m")...)
	for key, value := range map[string]string{
		"bad/json": "{", "bad/large": `"` + strings.Repeat("x", maxValue) + `"`, "bad/id": `{"id":"other","model":"m","protocol":"openai-chat","url":"http://10.0.0.1"}`,
		"bad/double": `{"id":"bad/double","id":"bad/double"}`,
	} {
		if _, err := c.Put(t.Context(), "/isogloss/workers/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	_, d := follow(t, at(s.URL), Options{})
	whole(t, d, 2*pageSize+7)
	if n := d.Status().Refused; n != 4 {
		t.Errorf("%d are refused, want 4", n)
	}
	if _, err := c.Put(t.Context(), "/isogloss/workers/bad/later", "nonsense"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fifth refusal", func() bool { return d.Status().Refused == 5 })
	// A valid worker after the invalid one is published, and the watch continues.
	put(t, c, worker("bad/later", "m"))
	whole(t, d, 2*pageSize+8)
}

// TestEtcdMassDelete checks that the deletion of the whole prefix takes effect only after
// a delay.
func TestEtcdMassDelete(t *testing.T) {
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	put(t, c, fleet(10, "m")...)
	a, d := follow(t, at(s.URL), Options{Confirm: 2 * time.Second})
	whole(t, d, 10)
	deleted := time.Now()
	if _, err := c.Delete(t.Context(), "/isogloss/workers/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all", func() bool { return len(d.Status().Snapshot.Workers) == 0 })
	if took := time.Since(deleted); took < 2*time.Second {
		t.Errorf("they were believed to be gone after %v", took)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.heard {
		if n := len(s.Workers); n != 10 && n != 0 {
			t.Errorf("a publication has %d workers", n)
		}
	}
}

// TestEtcdCompactedPastTheWatch checks a watch that is disconnected while etcd compacts
// the events it missed, with and without a pulse that detects the disconnection.
func TestEtcdCompactedPastTheWatch(t *testing.T) {
	for _, pulse := range []time.Duration{time.Second, time.Hour} {
		t.Run(pulse.String(), func(t *testing.T) {
			s := storetest.Etcd(t)
			c := client(t, s.URL)
			all := fleet(20, "m")
			put(t, c, all[:10]...)
			w := newWire(t, s.Addr)
			e := at(w.url())
			e.Pulse = pulse
			a, d := follow(t, e, Options{})
			whole(t, d, 10)
			since := a.count()
			w.set(true)
			put(t, c, all[10:]...)
			if _, err := c.Delete(t.Context(), "/isogloss/workers/"+all[0].ID); err != nil {
				t.Fatal(err)
			}
			resp, err := c.Put(t.Context(), "/elsewhere", "x")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Compact(t.Context(), resp.Header.Revision); err != nil {
				t.Fatal(err)
			}
			w.set(false)
			t.Logf("resync after %v", whole(t, d, 19))
			a.never(t, since, 10)
		})
	}
}

func TestEtcdWiped(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	a, d := follow(t, at(s.URL), Options{})
	register(t, at(s.URL), 10*time.Second, fleet(10, "m")...)
	whole(t, d, 10)
	since := a.count()
	s.Kill()
	if err := s.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("resync after %v", resynced(t, c, d, 10))
	a.never(t, since, 10)
	if all, err := c.Get(t.Context(), "/isogloss/workers/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || all.Count != 11 {
		t.Errorf("etcd has %v workers, %v", all, err)
	}
}

// TestEtcdRestoredToAnOlderState checks that after a restore, workers that registered
// after the backup are missing until they register again, and workers that left since
// reappear until their lease ends.
func TestEtcdRestoredToAnOlderState(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	a, d := follow(t, at(s.URL), Options{})
	all := fleet(12, "m")
	register(t, at(s.URL), 10*time.Second, all[:4]...)
	whole(t, d, 4)
	backup := t.TempDir()
	s.Kill()
	if err := os.CopyFS(backup, os.DirFS(s.Dir())); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	register(t, at(s.URL), 10*time.Second, all[4:]...)
	whole(t, d, 12)
	since := a.count()
	s.Kill()
	if err := s.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(s.Dir(), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("resync after %v", resynced(t, c, d, 12))
	a.never(t, since, 12)
}

// TestEtcdFrozen checks an etcd that is frozen for longer than the leases last, and that
// expires all of them when it continues.
func TestEtcdFrozen(t *testing.T) {
	const ttl = 5 * time.Second
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	a, d := follow(t, at(s.URL), Options{})
	register(t, at(s.URL), ttl, fleet(2, "m")...)
	register(t, at(s.URL), ttl, fleet(1, "alone")...)
	whole(t, d, 3)
	since := a.count()
	s.Freeze()
	eventually(t, "the news that it is away", func() bool { return d.Status().Snapshot.Stale })
	testrig.Pause(t.Context(), ttl+2*time.Second) // longer than the leases, by the clock of etcd
	s.Thaw()
	t.Logf("resync after %v", resynced(t, c, d, 3))
	a.never(t, since, 3)
}

// unconfirmed is a Watcher whose watches etcd does not confirm.
type unconfirmed struct{ clientv3.Watcher }

func (unconfirmed) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	<-ctx.Done()
	return nil
}

// TestEtcdFrozenBeforeTheWatch checks that a session ends if etcd freezes after the list,
// before it confirms the watch.
func TestEtcdFrozenBeforeTheWatch(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	e, err := newEtcd(at(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, s.URL)
	c.Watcher = unconfirmed{c.Watcher}
	listed, ended := make(chan bool, 1), make(chan error, 1)
	w := &watching{etcd: e, client: c, tell: func(Change) { listed <- true }}
	go func() { ended <- w.run(t.Context()) }()
	<-listed
	s.Freeze()
	defer s.Thaw()
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, errAgain) {
			t.Errorf("the session ends with %v, want the failure", err)
		}
	case <-time.After(patience):
		t.Error("the session does not end")
	}
}

func TestEtcdLeaderKilled(t *testing.T) {
	t.Parallel()
	cluster := storetest.EtcdCluster(t, 3)
	var urls []string
	for _, s := range cluster {
		urls = append(urls, s.URL)
	}
	a, d := follow(t, at(urls...), Options{})
	register(t, at(urls...), time.Minute, fleet(10, "m")...)
	whole(t, d, 10)
	since := a.count()
	leader := leaderOf(t, cluster)
	cluster[leader].Kill()
	start := time.Now()
	register(t, at(urls...), time.Minute, worker("new", "m"))
	whole(t, d, 11)
	t.Logf("a worker that registers after the kill is there after %v", time.Since(start))
	a.never(t, since, 10)
	if err := cluster[leader].Start(); err != nil {
		t.Fatal(err)
	}
	whole(t, d, 11)
	a.never(t, since, 10)
}

// TestEtcdWithoutALeader checks that the known workers stay while etcd has lost most of
// its members and has no leader.
func TestEtcdWithoutALeader(t *testing.T) {
	t.Parallel()
	cluster := storetest.EtcdCluster(t, 3)
	var urls []string
	for _, s := range cluster {
		urls = append(urls, s.URL)
	}
	c := client(t, urls...)
	put(t, c, fleet(10, "m")...)
	a, d := follow(t, at(urls...), Options{})
	whole(t, d, 10)
	since := a.count()
	cluster[0].Kill()
	cluster[1].Kill()
	eventually(t, "the news that it is away", func() bool { return d.Status().Snapshot.Stale })
	if err := cluster[0].Start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("resync after %v", resynced(t, c, d, 10))
	a.never(t, since, 10)
}

// TestEtcdFindsLostEvents checks that a list at the watch's revision equals the watch's
// state, whatever is written meanwhile, unless the watch has lost an event.
func TestEtcdFindsLostEvents(t *testing.T) {
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	put(t, c, fleet(10, "m")...)
	e, err := newEtcd(at(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{etcd: e, client: c, tell: func(Change) {}}
	if err := w.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, c, worker("later", "m"))
	if err := w.compare(t.Context()); err != nil {
		t.Errorf("a write that the watch has not reached: %v", err)
	}
	for name, lose := range map[string]func(key string){
		"a put":    func(key string) { delete(w.known, key) },
		"a change": func(key string) { w.known[key]-- },
		"a delete": func(string) { w.known["/isogloss/workers/ghost"] = 1 },
	} {
		if err := w.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		lose(w.any())
		if err := w.compare(t.Context()); err == nil {
			t.Errorf("%s that was lost is not found", name)
		}
	}
}

// TestEtcdForged fills etcd with values and keys that are too large: the valid workers
// among them are found, and what is kept of the others is small.
func TestEtcdForged(t *testing.T) {
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	put(t, c, fleet(50, "m")...)
	for i := range 30 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("/isogloss/workers/m-%05d-large", i), strings.Repeat("x", 1_400_000)); err != nil {
			t.Fatal(err)
		}
	}
	long := "/isogloss/workers/" + strings.Repeat("k", 100_000)
	if _, err := c.Put(t.Context(), long, "{}"); err != nil {
		t.Fatal(err)
	}
	engine := worker("engine", "m")
	engine.Engine = strings.Repeat("e", 60_000)
	put(t, c, engine)
	_, d := follow(t, at(s.URL), Options{})
	whole(t, d, 50)
	if n := d.Status().Refused; n != 31 {
		t.Errorf("%d are refused, want 31", n)
	}
	if _, err := c.Put(t.Context(), long+"2", "{}"); err != nil {
		t.Fatal(err)
	}
	put(t, c, worker("later", "m"))
	whole(t, d, 51)
	w := &watching{etcd: &etcd{}, known: map[string]int64{}}
	for i := range maxKeys + 10 {
		w.event(&batch{}, &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(fmt.Sprint(i)), ModRevision: 1}}, false)
	}
	if len(w.known) > maxKeys {
		t.Errorf("the watch remembers %d keys", len(w.known))
	}
}
