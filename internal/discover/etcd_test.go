package discover

import (
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
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
	whole(t, d, 5*time.Second, 2*pageSize+7)
	if n := d.Status().Refused; n != 4 {
		t.Errorf("%d are refused, want 4", n)
	}
	if _, err := c.Put(t.Context(), "/isogloss/workers/bad/later", "nonsense"); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Second, "the fifth refusal", func() bool { return d.Status().Refused == 5 })
	// A good one after the bad one is taken, and the watch goes on.
	put(t, c, worker("bad/later", "m"))
	whole(t, d, time.Second, 2*pageSize+8)
}

// Somebody deletes the whole prefix: it is believed when it is still so later.
func TestEtcdMassDelete(t *testing.T) {
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	put(t, c, fleet(10, "m")...)
	a, d := follow(t, at(s.URL), Options{Confirm: 2 * time.Second})
	whole(t, d, 5*time.Second, 10)
	if _, err := c.Delete(t.Context(), "/isogloss/workers/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, 5*time.Second, "the end of all", func() bool { return len(d.Status().Snapshot.Workers) == 0 })
	if took < 1900*time.Millisecond {
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

// The watch is cut off, and etcd forgets what it missed: with and without a pulse
// that notices the cut.
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
			whole(t, d, 5*time.Second, 10)
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
			t.Logf("resync after %v", whole(t, d, resync, 19))
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
	whole(t, d, 10*time.Second, 10)
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

// Workers that came after the backup are in no list until they put themselves
// there again; those of the backup that have left since are there again for as
// long as their lease.
func TestEtcdRestoredToAnOlderState(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	a, d := follow(t, at(s.URL), Options{})
	all := fleet(12, "m")
	register(t, at(s.URL), 10*time.Second, all[:4]...)
	whole(t, d, 10*time.Second, 4)
	backup := t.TempDir()
	s.Kill()
	if err := os.CopyFS(backup, os.DirFS(s.Dir())); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	register(t, at(s.URL), 10*time.Second, all[4:]...)
	whole(t, d, 10*time.Second, 12)
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

// It stands still for longer than the leases, and ends them all when it goes on.
func TestEtcdFrozen(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	a, d := follow(t, at(s.URL), Options{})
	register(t, at(s.URL), 5*time.Second, fleet(2, "m")...)
	register(t, at(s.URL), 5*time.Second, fleet(1, "alone")...)
	whole(t, d, 10*time.Second, 3)
	since := a.count()
	s.Freeze()
	eventually(t, resync, "the news that it is away", func() bool { return d.Status().Snapshot.Stale })
	time.Sleep(10 * time.Second) // this is what is tested
	s.Thaw()
	t.Logf("resync after %v", resynced(t, c, d, 3))
	a.never(t, since, 3)
}

func TestEtcdLeaderKilled(t *testing.T) {
	t.Parallel()
	cluster := storetest.EtcdCluster(t, 3)
	var urls []string
	for _, s := range cluster {
		urls = append(urls, s.URL)
	}
	a, d := follow(t, at(urls...), Options{})
	register(t, at(urls...), 10*time.Second, fleet(10, "m")...)
	whole(t, d, 10*time.Second, 10)
	since := a.count()
	leader := leaderOf(t, cluster)
	cluster[leader].Kill()
	start := time.Now()
	register(t, at(urls...), 10*time.Second, worker("new", "m"))
	whole(t, d, 2*resync, 11)
	t.Logf("a worker that registers after the kill is there after %v", time.Since(start))
	if took := time.Since(start); took > resync {
		t.Errorf("resync took %v", took)
	}
	a.never(t, since, 10)
	if err := cluster[leader].Start(); err != nil {
		t.Fatal(err)
	}
	whole(t, d, resync, 11)
	a.never(t, since, 10)
}

// Without most of its members etcd has no leader; what is known stays.
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
	whole(t, d, 10*time.Second, 10)
	since := a.count()
	cluster[0].Kill()
	cluster[1].Kill()
	eventually(t, resync, "the news that it is away", func() bool { return d.Status().Snapshot.Stale })
	if err := cluster[0].Start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("resync after %v", resynced(t, c, d, 10))
	a.never(t, since, 10)
}

// The list at the watch's own revision is the same as what the watch said,
// whatever is written meanwhile, unless the watch has lost something.
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
