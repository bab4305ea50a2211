package quota

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// BenchmarkRedis measures a reservation and its settlement with Redis: time, CPU time of this
// process and calls of Redis. With slices most requests do not wait for a round trip.
func BenchmarkRedis(b *testing.B) {
	for name, rate := range map[string]float64{"round trip": -1, "slices": 200} {
		for _, accounts := range []int{1, 3} {
			b.Run(fmt.Sprint(name, "/", accounts), func(b *testing.B) { benchRedis(b, rate, accounts) })
		}
	}
}

func benchRedis(b *testing.B, rate float64, accounts int) {
	n := redisNode(b, storetest.Redis(b), Options{HotRate: rate}, patient)
	a := benchAsk()
	a.Accounts = a.Accounts[:accounts]
	var ids atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	cpu, calls, busy, memory := testrig.ProcessorTime(b), scriptsRun(b, n), redisTime(b, n), redisMemory(b, n)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ask := a
			ask.ID = fmt.Sprintf("bench-%d", ids.Add(1))
			h, refusal := n.Reserve(context.Background(), ask)
			if refusal != nil {
				b.Error(refusal)
				return
			}
			settle(h, 500, usage.Dollar/2000)
		}
	})
	n.settled(b)
	count := float64(b.N)
	b.ReportMetric(float64((testrig.ProcessorTime(b)-cpu).Nanoseconds())/count, "cpu-ns/op")
	b.ReportMetric(float64(scriptsRun(b, n)-calls)/count, "calls/op")
	b.ReportMetric(float64(redisTime(b, n)-busy)/count, "redis-ns/op")
	b.ReportMetric(float64(redisMemory(b, n)-memory)/count, "redis-B/op")
	b.ReportMetric(float64(n.Snapshot().Sliced)/count, "sliced/op")
}

// scriptsRun returns the number of scripts that Redis has run.
func scriptsRun(t testing.TB, n *node) (calls int64) {
	for _, line := range info(t, n, "commandstats") {
		_, _ = fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &calls) // other lines are about other commands
	}
	return calls
}

// redisTime returns the CPU time of Redis.
func redisTime(t testing.TB, n *node) (all time.Duration) {
	for _, line := range info(t, n, "cpu") {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			all += time.Duration(seconds * float64(time.Second))
		}
	}
	return all
}

// redisMemory returns the memory of Redis, including marks that have not expired.
func redisMemory(t testing.TB, n *node) (bytes int64) {
	for _, line := range info(t, n, "memory") {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &bytes) // other lines are about other values
	}
	return bytes
}

func info(t testing.TB, n *node, section string) []string {
	t.Helper()
	client := n.back.(*redisBackend).servers.Load().all[0].server.Conn()
	text, err := client.Do(context.Background(), client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(text)
}
