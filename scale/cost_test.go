package scale

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/kafka"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestCost reports the CPU time and the bytes that a million requests cost each part, calculated from 200,000 that
// come as fast as one gateway's spool can send them. Nothing fails.
func TestCost(t *testing.T) {
	const count = 200_000
	dir := t.TempDir()
	k := startKafka(t, dir)
	engine, postgres := clickhouse(t, dir), storetest.Postgres(t)
	s, err := store.Open(t.Context(), postgres.URL, store.Options{Migrate: true, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	testrig.Eventually(t, "the store is ready", func() bool { return s.Ready() == nil })
	l, err := kafka.New(kafka.Settings{Brokers: k.addresses, Topic: "usage", Partitions: partitions, Replicas: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "isogloss.yaml")
	text := fmt.Sprintf("store: {url: %q, peppers: [0123456789012345678901234567890123456789]}\nusage: {sink: {%s}, clickhouse: {url: %q}}\n%s", postgres.URL, k.sink, engine.url, models("http://127.0.0.1:1/v1"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	consumer := start(t, dir, "consumer", needs(t, "ISOGLOSS_BINARY"), "consume", "-c", config)
	if err := testrig.Until(t.Context(), 3*time.Minute, "the log is not created", func() bool {
		return l.Create(t.Context()) == nil && ask(t, engine.url, "SELECT count() FROM requests FORMAT TabSeparated") == "0"
	}); err != nil {
		t.Fatal(err)
	}
	parts := map[string]func() time.Duration{
		"gateway: spool and producer": func() time.Duration { return testrig.ProcessorTime(t) },
		"isogloss consume":            func() time.Duration { return cpu(t, consumer.cmd.Process.Pid) },
		"ClickHouse's engine":         func() time.Duration { return cpu(t, engine.pid) },
		"PostgreSQL":                  func() time.Duration { return cpu(t, postgres.PID()) },
		"Kafka, three brokers": func() (sum time.Duration) {
			for _, b := range k.brokers {
				sum += cpu(t, b.cmd.Process.Pid)
			}
			return sum
		},
	}
	before := map[string]time.Duration{}
	for name, read := range parts {
		before[name] = read()
	}
	began := time.Now()
	send(t, dir, l, s, count)
	for ask(t, engine.url, "SELECT count() FROM requests FORMAT TabSeparated") != strconv.Itoa(count) {
		if time.Since(began) > 10*time.Minute {
			t.Fatal("the requests do not arrive")
		}
		testrig.Pause(t.Context(), time.Second) // more queries would cost CPU time, which is measured
	}
	t.Logf("%d requests in %v", count, time.Since(began).Round(time.Second))
	var figures []string
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		seconds := (parts[name]() - before[name]).Seconds() * 1e6 / count
		t.Logf("%-30s %6.1f CPU seconds for a million requests", name, seconds)
		figures = append(figures, fmt.Sprintf("%s %.0f s", name, seconds))
	}
	record(t, "CPU for a million requests: %s", strings.Join(figures, "; "))
	t.Logf("Kafka: %d bytes of a request on each of three brokers", folderSize(t, filepath.Join(dir, "data-kafka-1"))/count)
	t.Logf("ClickHouse: %s bytes of a request, %s of them sums", ask(t, engine.url, fmt.Sprintf("SELECT intDiv(sum(bytes_on_disk), %d) FROM system.parts WHERE active AND table = 'requests' FORMAT TabSeparated", count)),
		ask(t, engine.url, fmt.Sprintf("SELECT intDiv(sum(bytes_on_disk), %d) FROM system.projection_parts WHERE active AND table = 'requests' FORMAT TabSeparated", count)))
}

// send records requests of 1,000 keys in a spool that sends them to the log.
func send(t *testing.T, dir string, l log, s *store.Store, count int) {
	t.Helper()
	p, err := spool.Open(spool.Options{Dir: filepath.Join(dir, "spool"), Node: "gw", Keep: -1})
	if err != nil {
		t.Fatal(err)
	}
	drain, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { p.Drain(drain, usagelog.NewSink(l, ledger.Ledger{Store: s}, partitions, eventKey(t)), nil) })
	t.Cleanup(func() { end(); work.Wait(); _ = p.Close() })
	for i := range count {
		key, cost := i*7919%1000, usage.Money(1_000_003+i)
		row := usage.Row{ID: uuid.NewString(), Node: "gw", Key: fmt.Sprintf("0123456789abcdefghi%03d", key), Team: fmt.Sprint("team-", key/20%5), Org: fmt.Sprint("org-", key%20), Began: time.Now(), Took: 2 * time.Second,
			Endpoint: "chat_completions", Dialect: "openai-chat", Model: fmt.Sprint("model-", key%30), Target: fmt.Sprint("provider/model-", key%30), Stream: true, Status: 200, Outcome: usage.Answered, Fidelity: "exact",
			Usage: llm.Usage{Input: int64(i % 9000), Output: int64(i % 900)}, Cost: &cost, Queue: 80 * time.Microsecond, Client: usage.Client{Agent: "OpenAI/Python 2.8.1"}}
		row.FirstByte, row.FirstToken = 100*time.Millisecond, 200*time.Millisecond
		row.Attempts = []usage.Attempt{{Target: row.Target, Began: row.Began, Took: row.Took, Status: 200, Usage: row.Usage, Cost: row.Cost, Charged: true}}
		e, err := p.Begin(spool.Opening{ID: row.ID, Key: row.Key, Team: row.Team, Org: row.Org, Began: row.Began})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.End(row); err != nil {
			t.Fatal(err)
		}
	}
}

// cpu returns the CPU time of a process and its children.
func cpu(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // from the state on
		if len(fields) < 15 || path != fmt.Sprintf("/proc/%d/stat", pid) && fields[1] != strconv.Itoa(pid) {
			continue
		}
		for _, field := range fields[11:15] { // its own and those of children that have ended, in ticks of 10 ms
			n, _ := strconv.Atoi(field)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

func folderSize(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".log") || !strings.Contains(path, "usage-") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
