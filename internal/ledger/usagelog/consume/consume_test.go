package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

// memoryLog is a log in memory that can fail.
type memoryLog struct {
	mu       sync.Mutex
	parts    [][]usagelog.Record
	fail     func() (before, after bool) // an error before or after a message is written
	openings int
}

// testKey is the key of the gateways' MACs.
var testKey = usagelog.Key("key of the test")

// signed returns a message of a gateway.
func signed(offset int64, header, body string) usagelog.Record {
	return usagelog.Record{Offset: offset, Header: header, MAC: testKey.MAC(header, []byte(body)), Body: []byte(body)}
}

func newLog(partitions int) *memoryLog {
	return &memoryLog{parts: make([][]usagelog.Record, partitions)}
}

func (l *memoryLog) Name() string                 { return "memory" }
func (l *memoryLog) Create(context.Context) error { return nil }
func (l *memoryLog) Close()                       {}

func (l *memoryLog) Produce(_ context.Context, messages []usagelog.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		var before, after bool
		if l.fail != nil {
			before, after = l.fail()
		}
		if before {
			return errors.New("the broker is down")
		}
		l.parts[m.Partition] = append(l.parts[m.Partition], usagelog.Record{Offset: int64(len(l.parts[m.Partition])), Header: m.String(), MAC: m.MAC, Body: m.Body})
		if after {
			return errors.New("the broker has not answered")
		}
	}
	return nil
}

// lose removes the last messages of all partitions, and a message in the middle, as a broker does that has lost
// its disk. Offsets are not used again.
func (l *memoryLog) lose(from int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.parts {
		for i := from; i < len(l.parts[p]); i++ {
			if i == from || i > len(l.parts[p])-3 {
				l.parts[p][i].Header = "" // skipped by the reader
			}
		}
	}
}

func (l *memoryLog) Open(_ context.Context, partition int, offset int64) (usagelog.Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.openings++
	return &memoryReader{l, partition, offset}, nil
}

type memoryReader struct {
	l    *memoryLog
	p    int
	next int64
}

func (r *memoryReader) Close() {}

func (r *memoryReader) Read(ctx context.Context) (out []usagelog.Record, err error) {
	r.l.mu.Lock()
	for ; r.next < int64(len(r.l.parts[r.p])) && len(out) < 7; r.next++ {
		if one := r.l.parts[r.p][r.next]; one.Header != "" {
			out = append(out, one)
		}
	}
	r.l.mu.Unlock()
	if len(out) == 0 {
		pause(ctx, 5*time.Millisecond)
	}
	return out, ctx.Err()
}

// requests has the rows of blocks in memory, and can fail.
type requests struct {
	mu     sync.Mutex
	tokens map[string]bool
	rows   map[string]int // by log and position
	top    map[string]int64
	fail   func() (before, after bool)
}

func newRequests() *requests {
	return &requests{tokens: map[string]bool{}, rows: map[string]int{}, top: map[string]int64{}}
}

func (q *requests) Create(context.Context) error { return nil }

func (q *requests) Insert(_ context.Context, token string, partition int, rows []clickhouse.Row) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var before, after bool
	if q.fail != nil {
		before, after = q.fail()
	}
	if before {
		return errors.New("no connection")
	}
	if !q.tokens[token] {
		q.tokens[token] = true
		for _, r := range rows {
			q.rows[fmt.Sprint(r.Log, "/", r.Position, "/", r.ID)]++
			name := fmt.Sprint(partition, "/", r.Log)
			q.top[name] = max(q.top[name], r.Position)
		}
	}
	if after {
		return errors.New("the connection was lost")
	}
	return nil
}

func (q *requests) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.rows)
}

func (q *requests) Positions(_ context.Context, partition int, logs []string, _ time.Time) (map[string]int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := map[string]int64{}
	for _, log := range logs {
		at[log] = q.top[fmt.Sprint(partition, "/", log)]
	}
	return at, nil
}

func openStore(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	testrig.EventuallyNil(t, "the tables are there", s.Ready)
	return s
}

// databases are the addresses of an SQLite file and a PostgreSQL server.
func databases(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "db"), "postgres": storetest.Postgres(t).URL}
}

// gateway sends the rows of a spool.
type gateway struct {
	spool *spool.Spool
	stop  func()
}

func newGateway(t *testing.T, dir string, sink spool.Sink) *gateway {
	t.Helper()
	s, err := spool.Open(spool.Options{Dir: dir, Node: "gw", Logger: slog.New(slog.DiscardHandler), Keep: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { s.Drain(ctx, sink, nil) })
	g := &gateway{spool: s, stop: sync.OnceFunc(func() { cancel(); work.Wait(); _ = s.Close() })}
	t.Cleanup(g.stop)
	return g
}

// request records a request of an organisation.
func (g *gateway) request(t *testing.T, id, org string, cost usage.Money) {
	t.Helper()
	began := time.Now()
	e, err := g.spool.Begin(spool.Opening{ID: id, Key: "key-" + org, Team: "team", Org: org, Began: began})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.End(usage.Row{ID: id, Key: "key-" + org, Team: "team", Org: org, Began: began, Outcome: usage.Answered, Usage: llm.Usage{Input: 1, Output: 2}, Cost: &cost, Model: "m", Target: "t/m"}); err != nil {
		t.Fatal(err)
	}
}

// TestExactlyOnce sends requests through a log and stores that fail at random, with consumers that come, go and
// hang, and a gateway that dies: each request is stored once, and the balances are exact.
func TestExactlyOnce(t *testing.T) {
	for name, url := range databases(t) {
		t.Run(name, func(t *testing.T) { exactlyOnce(t, url) })
	}
}

func exactlyOnce(t *testing.T, url string) {
	const partitions, count = 4, 6000
	s := openStore(t, url)
	log, rows := newLog(partitions), newRequests()
	dice := rand.New(rand.NewPCG(7, 8))
	var mu sync.Mutex
	odds := func(n int) func() (bool, bool) {
		return func() (bool, bool) {
			mu.Lock()
			defer mu.Unlock()
			return dice.IntN(n) == 0, dice.IntN(n) == 0
		}
	}
	log.fail, rows.fail = odds(40), odds(5)

	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer func() { end(); work.Wait() }()
	consumers := func(n int) {
		for i := range n {
			work.Go(func() {
				length := time.Duration(500+200*i) * time.Millisecond
				for ctx.Err() == nil { // a consumer that stops and comes again
					before := rows.count()
					c := New(Options{Key: testKey, ID: fmt.Sprintf("c%d-%d", i, time.Now().UnixNano()), Log: log, Partitions: partitions, Ledger: ledger.Ledger{Store: s, Balances: true}, Requests: rows,
						BlockWait: 20 * time.Millisecond, Lease: time.Second})
					life, cancel := context.WithTimeout(ctx, length)
					_ = c.Run(life)
					cancel()
					if rows.count() == before { // too short for a block on a loaded machine
						length *= 2
					}
				}
			})
		}
	}
	consumers(3)

	dir := t.TempDir()
	sink := usagelog.NewSink(log, ledger.Ledger{Store: s}, partitions, testKey)
	g := newGateway(t, dir, sink)
	want := map[string]usage.Money{}
	for i := range count {
		org := fmt.Sprint("org-", i%5)
		cost := usage.Money(1_000_003 + i)
		g.request(t, fmt.Sprint("r-", i), org, cost)
		want["org:"+org] += cost
		want["key:key-"+org] += cost
		switch i {
		case count / 3:
			if err := g.spool.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			log.lose(len(log.parts[0]) / 2)
		case 2 * count / 3: // the process dies; the next one sends the rest of its log
			g.stop()
			sink = usagelog.NewSink(log, ledger.Ledger{Store: s}, partitions, testKey)
			g = newGateway(t, dir, sink)
		}
	}
	await(t, func() string {
		rows.mu.Lock()
		defer rows.mu.Unlock()
		for name, n := range rows.rows {
			if n != 1 {
				t.Fatalf("%s is stored %d times", name, n)
			}
		}
		if len(rows.rows) != count {
			return fmt.Sprintf("%d of %d requests are stored", len(rows.rows), count)
		}
		return ""
	})
	await(t, func() string {
		got := map[string]usage.Money{}
		for account := range want {
			spent, err := s.Spent(t.Context(), account, time.Now().Add(-time.Hour).Truncate(time.Minute))
			if err != nil {
				return err.Error()
			}
			got[account] = spent.Since[0]
			if logs := total(spent.Logs); logs != got[account] {
				return fmt.Sprintf("%s has %d in its logs, %d in its sums", account, logs, got[account])
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Sprintf("the balances are %v, want %v", got, want)
		}
		return ""
	})
	// The watermark has passed everything, so the spool becomes empty.
	await(t, func() string {
		if b := g.spool.Snapshot(); b.Rows != 0 {
			return fmt.Sprintf("%d rows wait", b.Rows)
		}
		return ""
	})
}

func total(logs []usage.Total) (sum usage.Money) {
	for _, l := range logs {
		sum += l.Spent
	}
	return sum
}

// await waits until a check returns no complaint. A complaint that changes is progress, for which a busy machine gets
// the whole time again.
func await(t *testing.T, check func() string) {
	t.Helper()
	for complaint := check(); complaint != ""; {
		last := complaint
		testrig.Eventually(t, "the complaint changes: "+last, func() bool { complaint = check(); return complaint != last })
	}
}

// TestShare checks that consumers share the partitions, and that others take those of one that dies.
func TestShare(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	l := ledger.Ledger{Store: s}
	lease := time.Hour
	member := func(id string) ledger.Member {
		return ledger.Member{Source: "x", ID: id, Partitions: 6, Lease: lease}
	}
	claim := func(id string, want, spares int) []int {
		t.Helper()
		held, spare, err := l.Claim(t.Context(), member(id))
		if err != nil || len(held) != want || len(spare) != spares {
			t.Fatalf("%s has %v, %v too much, %v; want %d and %d", id, held, spare, err, want, spares)
		}
		return spare
	}
	claim("a", 6, 0)
	claim("b", 0, 0)
	spare := claim("a", 6, 3)
	if err := l.Release(t.Context(), member("a"), false, spare...); err != nil {
		t.Fatal(err)
	}
	claim("b", 3, 0)
	claim("a", 3, 0)
	claim("b", 3, 0)
	expire(t, s, "a")
	claim("b", 6, 0)
}

// expire ends the leases of a consumer.
func expire(t *testing.T, s *store.Store, id string) {
	t.Helper()
	err := s.Write(t.Context(), func(ctx context.Context, c db.Conn) error {
		return errors.Join(c.Exec(ctx, `UPDATE usage_consumers SET seen = 1 WHERE id = $1`, id), c.Exec(ctx, `UPDATE usage_offsets SET until = 1 WHERE holder = $1`, id))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFencing checks that a consumer that has lost its partition writes nothing.
func TestFencing(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	l := ledger.Ledger{Store: s}
	old := ledger.Member{Source: "x", ID: "old", Partitions: 1, Lease: time.Hour}
	next := old
	next.ID = "next"
	if _, _, err := l.Claim(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	cost := usage.Money(5)
	block := func(m ledger.Member) *ledger.Block {
		return &ledger.Block{Member: m, To: 3, Logs: []ledger.Part{{Log: "log", To: 9, Rows: []usage.Row{{ID: "a", Org: "o", Began: time.Now(), Cost: &cost}}}}}
	}
	if _, err := l.Begin(t.Context(), block(old), nil); err != nil {
		t.Fatal(err)
	}
	expire(t, s, old.ID)
	if held, _, err := l.Claim(t.Context(), next); err != nil || len(held) != 1 {
		t.Fatalf("%v, %v", held, err)
	}
	if n, end, err := l.Offset(t.Context(), next, 0); n != 0 || end != 3 || err != nil {
		t.Errorf("the next consumer begins at %d with a block to %d, %v", n, end, err)
	}
	other := block(next)
	other.To = 2
	if _, err := l.Begin(t.Context(), other, nil); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("another block than the one that was begun gives %v", err)
	}
	if _, err := l.Begin(t.Context(), block(next), nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), block(old)); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("the old consumer commits with %v", err)
	}
	if err := l.Commit(t.Context(), block(next)); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), block(next)); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("the second commit gives %v", err)
	}
	if spent, err := s.Spent(t.Context(), "org:o", time.Now().Add(-time.Hour)); err != nil || spent.Since[0] != 5 {
		t.Errorf("the balance is %v, %v", spent, err)
	}
}

// TestSetBack checks that requests that ClickHouse has are not inserted again after the store was set back.
func TestSetBack(t *testing.T) {
	log, rows := newLog(1), newRequests()
	for _, name := range []string{"before", "set back"} {
		s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db")) // the second one is empty
		if name == "before" {
			sink := usagelog.NewSink(log, ledger.Ledger{Store: s}, 1, testKey)
			for i := range 10 {
				row := usage.Row{ID: fmt.Sprint(i), Org: "o", Began: time.Now(), Outcome: usage.Answered, Cost: new(usage.Money(3))}
				if _, err := sink.Append(t.Context(), usage.Batch{Log: "l", After: int64(i), To: int64(i + 1), Rows: []usage.Row{row}, Positions: []int64{int64(i + 1)}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		c := New(Options{Key: testKey, ID: name, Log: log, Partitions: 1, Ledger: ledger.Ledger{Store: s, Balances: true}, Requests: rows, BlockWait: time.Duration(len(name)) * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { _ = c.Run(ctx) })
		await(t, func() string {
			if spent, err := s.Spent(t.Context(), "org:o", time.Now().Add(-time.Hour).Truncate(time.Minute)); err != nil || spent.Since[0] != 30 {
				return fmt.Sprint(name, ": the balance is ", spent, err)
			}
			return ""
		})
		cancel()
		work.Wait()
		if len(rows.rows) != 10 {
			t.Errorf("%s: %d rows", name, len(rows.rows))
		}
		for row, n := range rows.rows {
			if n != 1 {
				t.Errorf("%s: %s is there %d times", name, row, n)
			}
		}
	}
}

// TestProbes checks the HTTP interface, and that malformed messages do not stop a partition.
func TestProbes(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	log, rows := newLog(1), newRequests()
	log.parts[0] = []usagelog.Record{
		signed(0, "nonsense", "{}"),
		signed(1, "l/0/0/2", "nonsense\n"+`{"v":1,"log":"l","position":2,"id":"a","time":"2026-11-18T00:00:00Z","outcome":"answered","org":"o","cost_nano_usd":4}`+"\n"),
	}
	c := New(Options{Key: testKey, ID: "c", Log: log, Partitions: 1, Ledger: ledger.Ledger{Store: s}, Requests: rows, BlockWait: time.Millisecond})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, _ := get("/ready"); code != http.StatusServiceUnavailable {
		t.Errorf("/ready is %d before the start", code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = c.Run(ctx) })
	await(t, func() string {
		_, text := get("/metrics")
		for _, line := range []string{"isogloss_consume_events_total 1\n", "isogloss_consume_malformed_total 2\n", "isogloss_consume_partitions 1\n", "isogloss_consume_messages_total 2\n"} {
			if !strings.Contains(text, line) {
				return "no " + line + text
			}
		}
		return ""
	})
	if code, _ := get("/ready"); code != http.StatusOK {
		t.Errorf("/ready is %d", code)
	}
	cancel()
	work.Wait()
	if held, _, err := (ledger.Ledger{Store: s}).Claim(t.Context(), ledger.Member{Source: "memory", ID: "d", Partitions: 1, Lease: time.Second}); err != nil || len(held) != 1 {
		t.Errorf("the partition is not given up: %v, %v", held, err)
	}
}
