package discover

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// cpu returns the CPU time and the memory of a process.
func cpu(t testing.TB, pid int) (time.Duration, int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i], 10, 64); return v }
	return time.Duration(n(11)+n(12)) * 10 * time.Millisecond, n(21) * int64(os.Getpagesize())
}

// BenchmarkFanout measures a change of one worker with many gateways, each on its own
// connection: the cost for etcd, and the time until the last gateway has received it.
func BenchmarkFanout(b *testing.B) {
	for _, gateways := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(gateways), func(b *testing.B) {
			s := storetest.Etcd(b)
			writer := client(b, s.URL)
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			heard := make(chan struct{}, gateways)
			_, before := cpu(b, s.PID())
			for range gateways {
				c := client(b, s.URL)
				events := c.Watch(clientv3.WithRequireLeader(ctx), "/isogloss/workers/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
				<-events
				running.Go(func() {
					for range events {
						heard <- struct{}{}
					}
				})
			}
			busy, after := cpu(b, s.PID())
			var last time.Duration
			n := 0
			for b.Loop() {
				n++
				w := worker("a", "m")
				w.Weight = n
				start := time.Now()
				put(b, writer, w)
				for range gateways {
					<-heard
				}
				last += time.Since(start)
			}
			done, _ := cpu(b, s.PID())
			b.ReportMetric(float64((done-busy).Microseconds())/float64(n), "etcd-µs/update")
			b.ReportMetric(float64(last.Microseconds())/float64(n), "µs-to-last")
			b.ReportMetric(float64(after-before)/float64(gateways)/1024, "etcd-KiB/gateway")
		})
	}
}

// BenchmarkRenew measures the cost of a lease renewal for etcd and for the worker.
func BenchmarkRenew(b *testing.B) {
	s := storetest.Etcd(b)
	c := client(b, s.URL)
	e, err := newEtcd(at(s.URL))
	if err != nil {
		b.Fatal(err)
	}
	_, before := cpu(b, s.PID())
	list := make([]*entry, 2000)
	for i := range list {
		list[i] = &entry{etcd: e, ttl: time.Hour, logger: e.o.Logger, key: e.workers() + strconv.Itoa(i), value: []byte(strings.Repeat("x", 150))}
		if err := list[i].enter(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
	busy, after := cpu(b, s.PID())
	n := 0
	for b.Loop() {
		n++
		if err := list[n%len(list)].renew(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
	done, _ := cpu(b, s.PID())
	b.ReportMetric(float64((done-busy).Microseconds())/float64(n), "etcd-µs/renewal")
	b.ReportMetric(float64(after-before)/float64(len(list))/1024, "etcd-KiB/worker")
}

// BenchmarkListCost measures etcd's cost of listing 10,000 workers, of listing their keys
// only, and of a pulse.
func BenchmarkListCost(b *testing.B) {
	s := storetest.Etcd(b)
	c := client(b, s.URL)
	put(b, c, many()...)
	e, err := newEtcd(at(s.URL))
	if err != nil {
		b.Fatal(err)
	}
	w := &watching{etcd: e, client: c, tell: func(Change) {}}
	pulse := func(ctx context.Context) error { return w.beat(ctx, w.any(), 0).err }
	for name, do := range map[string]func(context.Context) error{"list": w.list, "compare": w.compare, "pulse": pulse} {
		b.Run(name, func(b *testing.B) {
			if err := w.list(b.Context()); err != nil {
				b.Fatal(err)
			}
			busy, _ := cpu(b, s.PID())
			n := 0
			for b.Loop() {
				n++
				if err := do(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			done, _ := cpu(b, s.PID())
			b.ReportMetric(float64((done-busy).Microseconds())/float64(n), "etcd-µs/op")
		})
	}
}
