package discover

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/targets/discover/rotation"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestShares checks the parts of a capacity: their sum is the capacity, or the number of
// gateways if that is greater, no part is more than one greater than another, and no
// gateway gets the rest of all workers.
func TestShares(t *testing.T) {
	for gateways := 1; gateways <= 9; gateways++ {
		extra := make([]int, gateways) // how often a gateway gets more than the least
		for capacity := 1; capacity <= 40; capacity++ {
			for n := range 50 {
				id := fmt.Sprintf("etcd/gpu-%d", n)
				var parts []int
				for rank := range gateways {
					parts = append(parts, Share{gateways, rank}.Of(Worker{ID: id, Capacity: capacity}))
				}
				sum, least, most := 0, slices.Min(parts), slices.Max(parts)
				for rank, p := range parts {
					sum += p
					if p > least {
						extra[rank]++
					}
				}
				if sum != max(capacity, gateways) || least < 1 || most-least > 1 {
					t.Errorf("capacity %d, %d gateways: the parts are %v", capacity, gateways, parts)
				}
			}
		}
		if gateways > 1 && slices.Min(extra)*2 < slices.Max(extra) {
			t.Errorf("%d gateways get the rest this often: %v", gateways, extra)
		}
	}
	for _, s := range []Share{{}, {1, 0}, {3, 1}} {
		if n := s.Of(Worker{ID: "a"}); n != 0 {
			t.Errorf("%+v of a worker without a limit is %d", s, n)
		}
	}
	if n := (Share{}).Of(Worker{ID: "a", Capacity: 7}); n != 7 {
		t.Errorf("without a count it is %d of 7", n)
	}
}

const (
	gatewayTTL = 2 * time.Second
	longTTL    = 5 * time.Second // longer than a gateway needs to announce itself again
)

// gateway is a discovery that announces itself.
type gateway struct {
	*Discovery
	*audience
	stop func()
}

func newGateway(t testing.TB, e EtcdOptions, ttl time.Duration, snapshot string) gateway {
	t.Helper()
	g, err := NewGateways(GatewayOptions{Etcd: e, Node: "gw", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	src, err := Etcd(e)
	if err != nil {
		t.Fatal(err)
	}
	a, d, stop := begin(t, Options{Sources: []Source{src}, Gateways: g, Snapshot: snapshot})
	return gateway{d, a, stop}
}

// agree waits until the gateways have different ranks among n.
func agree(t testing.TB, n int, list ...gateway) time.Duration {
	t.Helper()
	return eventually(t, fmt.Sprintf("%d gateways", n), func() bool {
		ranks := map[int]bool{}
		for _, g := range list {
			s := g.Status().Snapshot.Share
			if s.Gateways != n {
				return false
			}
			ranks[s.Rank] = true
		}
		return len(ranks) == len(list)
	})
}

// fewest returns the smallest number of gateways that was published since.
func (a *audience) fewest(since int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	least := rotation.MaxGateways
	for _, s := range a.heard[since:] {
		least = min(least, s.Share.Gateways)
	}
	return least
}

// TestGatewaysAreCounted checks that gateways that start, stop, die and come back are
// counted.
func TestGatewaysAreCounted(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	put(t, c, worker("a", "m"))
	one, two, three := newGateway(t, at(s.URL), gatewayTTL, ""), newGateway(t, at(s.URL), gatewayTTL, ""), newGateway(t, at(s.URL), gatewayTTL, "")
	agree(t, 3, one, two, three)
	three.stop()
	t.Logf("a gateway that stops is gone after %v", agree(t, 2, one, two))
	// A gateway that is killed no longer renews its lease.
	lease, err := c.Grant(t.Context(), int64(gatewayTTL/time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), "/isogloss/gateways/killed", "", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	ctx, die := context.WithCancel(t.Context())
	defer die()
	renewals, err := c.KeepAlive(ctx, lease.ID)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range renewals { // until it dies
		}
	}()
	agree(t, 3, one, two)
	die()
	t.Logf("a gateway that dies is gone after %v", agree(t, 2, one, two))
	four := newGateway(t, at(s.URL), gatewayTTL, "")
	agree(t, 3, one, two, four)
}

// TestTheFirstPublicationWaitsForTheCount checks that a gateway does not use the whole
// capacity before it knows the number of gateways, unless etcd does not respond.
func TestTheFirstPublicationWaitsForTheCount(t *testing.T) {
	d, err := New(Options{Networks: networks(t, "10.0.0.0/8"), Gateways: &Gateways{}})
	if err != nil {
		t.Fatal(err)
	}
	l := newLoop(d, newDisk("", nil), nil)
	if l.ready(l.began) {
		t.Error("it does not wait")
	}
	if !l.ready(l.began.Add(headStart)) {
		t.Error("it waits for ever")
	}
	l.counted = true
	if !l.ready(l.began) {
		t.Error("it waits although the gateways were counted")
	}
}

// TestGatewaysWhileEtcdIsAway checks that the count stays while etcd is frozen, after all
// leases have expired, when it has been emptied, and after a restart without it.
func TestGatewaysWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	snapshot := filepath.Join(t.TempDir(), "workers.snapshot")
	one, two, three := newGateway(t, at(s.URL), longTTL, snapshot), newGateway(t, at(s.URL), longTTL, ""), newGateway(t, at(s.URL), longTTL, "")
	agree(t, 3, one, two, three)
	list := []gateway{one, two, three}
	var since []int
	for _, g := range list {
		since = append(since, g.count())
	}
	s.Freeze()
	testrig.Pause(t.Context(), longTTL+2*time.Second) // longer than the leases, by the clock of etcd
	s.Thaw()
	back := func(g gateway) func() bool { return func() bool { return !g.Status().Snapshot.Stale } }
	for _, g := range list {
		eventually(t, "etcd is back", back(g))
	}
	announced(t, client(t, s.URL), 3)
	s.Kill()
	if err := s.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	announced(t, client(t, s.URL), 3)
	agree(t, 3, list...)
	for i, g := range list {
		if n := g.fewest(max(0, since[i]-1)); n < 3 {
			t.Errorf("gateway %d has counted %d", i, n)
		}
	}
	eventually(t, "the count on disk", func() bool { s, err := read(snapshot); return err == nil && s.Share.Gateways == 3 })
	s.Kill()
	one.stop()
	again := newGateway(t, at(s.URL), longTTL, snapshot)
	eventually(t, "a publication", func() bool { return again.count() > 0 })
	if n := again.fewest(0); n != 3 {
		t.Errorf("after a restart without etcd there are %d gateways", n)
	}
}

// announced waits until etcd has this many gateways.
func announced(t testing.TB, c *clientv3.Client, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d gateways in etcd", n), func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		resp, err := c.Get(ctx, "/isogloss/gateways/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == n
	})
}

// TestForgedGateways checks that entries that are not those of a gateway are ignored, and
// that the number of gateways has a bound.
func TestForgedGateways(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	one := newGateway(t, at(s.URL), gatewayTTL, "")
	agree(t, 1, one)
	lease, err := c.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	forge := func(id string, opts ...clientv3.OpOption) {
		t.Helper()
		if _, err := c.Put(t.Context(), "/isogloss/gateways/"+id, "x", opts...); err != nil {
			t.Fatal(err)
		}
	}
	leased := clientv3.WithLease(lease.ID)
	forge("without-a-lease")
	forge("", leased)
	forge(strings.Repeat("x", rotation.MaxID+1), leased)
	forge("line\nbreak", leased)
	forge("\xff\xfe", leased)
	forge("valid", leased)
	agree(t, 2, one)
	var writing sync.WaitGroup
	for part := range 11 {
		writing.Go(func() {
			var ops []clientv3.Op
			for i := range 100 {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("/isogloss/gateways/forged-%d-%d", part, i), "", leased))
			}
			if _, err := c.Txn(t.Context()).Then(ops...).Commit(); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	eventually(t, "many gateways", func() bool { return one.Status().Snapshot.Share.Gateways > 900 })
	share := one.Status().Snapshot.Share
	if !share.valid() {
		t.Errorf("the share is %+v", share)
	}
	if n := share.Of(Worker{ID: "a", Capacity: 64}); n != 1 {
		t.Errorf("its part is %d", n)
	}
	if _, err := c.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	agree(t, 1, one)
}

// TestForgedShareOnDisk checks that a share that no gateway can have is not read.
func TestForgedShareOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.snapshot")
	for _, s := range []Share{{3, 3}, {3, -1}, {-1, 0}, {rotation.MaxGateways + 1, 0}, {0, 1}} {
		if err := newDisk(path, nil).save(Snapshot{Share: s}); err != nil {
			t.Fatal(err)
		}
		if got, err := read(path); err != nil || got.Share != (Share{}) {
			t.Errorf("%+v: read %+v, %v", s, got.Share, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestGatewayWithoutPermission checks that a gateway whose account may only read workers
// finds them and uses their whole capacity.
func TestGatewayWithoutPermission(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	put(t, c, worker("a", "m"))
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "canary"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.RoleAdd(ctx, "reader"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "reader", "/isogloss/workers/", clientv3.GetPrefixRangeEnd("/isogloss/workers/"), clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "gateway", "canary"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "gateway", "reader"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	log := &journal{}
	e := at(s.URL)
	e.Username, e.Password, e.Logger = "gateway", "canary", slog.New(slog.NewTextHandler(log, nil))
	g := newGateway(t, e, gatewayTTL, "")
	whole(t, g.Discovery, 1)
	eventually(t, "the warning", func() bool {
		return strings.Contains(log.String(), "etcd does not take the registration") && strings.Contains(log.String(), "permission denied")
	})
	if share := g.Status().Snapshot.Share; share.Of(Worker{ID: "a", Capacity: 8}) != 8 {
		t.Errorf("its share is %+v", share)
	}
}
