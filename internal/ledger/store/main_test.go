package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(&serverAround{m: m}) }

// serverAround runs one PostgreSQL for all tests that do not disturb it, because starting one takes
// seconds. Each test has its own database.
type serverAround struct{ m *testing.M }

func (a *serverAround) Run() int {
	defer func() {
		if shared.server != nil {
			shared.server.Close()
		}
		_ = os.RemoveAll(shared.dir)
	}()
	return a.m.Run()
}

var shared struct {
	sync.Mutex
	server *storetest.Server
	dir    string
	made   int
}

// database creates an empty database on the shared server.
func database(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		var err error
		shared.dir, err = os.MkdirTemp("", "store")
		no(t, err)
		shared.server, err = storetest.RunPostgres(shared.dir)
		no(t, err)
	}
	shared.made++
	name := fmt.Sprint("test", shared.made)
	server, err := sql.Open("pgx", shared.server.URL)
	no(t, err)
	defer server.Close()
	_, err = server.ExecContext(bg(), "CREATE DATABASE "+name)
	no(t, err)
	return strings.Replace(shared.server.URL, "/postgres?", "/"+name+"?", 1)
}

// each runs a test on an empty database of each kind.
func each(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "a b?c%#.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, database(t)) })
}

// both runs a test on each kind with a function that opens the database again, as another node.
func both(t *testing.T, test func(t *testing.T, open func() *Store)) {
	each(t, func(t *testing.T, url string) {
		test(t, func() *Store {
			s := opened(t, url, Options{Migrate: true})
			ready(t, s)
			return s
		})
	})
}

// ready waits until the tables are there. While one node migrates them on a slow disk, calls of another one fail.
func ready(t testing.TB, s *Store) {
	t.Helper()
	testrig.EventuallyNil(t, "the tables are there", s.Ready)
}

func opened(t testing.TB, url string, o Options) *Store {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, time.Minute) // longer than the slowest disk of a loaded machine
	s, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func no(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// sampleKey returns a key with every stored field set.
func sampleKey(id string) access.Record {
	return access.Record{
		ID: id, Name: "laptop of " + id, Org: "default",
		Digests: []access.Digest{{Pepper: 1, Sum: [32]byte{1, 2, 3}}},
		Created: noon, Expires: noon.Add(90 * 24 * time.Hour),
		Models: []string{"gpt-5", "local/*"}, Endpoints: []string{"chat_completions"},
		Networks:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
		Criticality: "high",
		Limit:       quota.Limit{Requests: 60, Tokens: 1e6, Concurrency: 8, Budget: 100 * usage.Dollar, Window: 30 * 24 * time.Hour, More: "5000000000/86400000000000"},
	}
}

// rows returns n rows with unique ids, ten milliseconds apart.
func rows(prefix string, n int) []usage.Row {
	list := make([]usage.Row, n)
	for i := range list {
		list[i] = row(prefix, i)
	}
	return list
}

func row(prefix string, i int) usage.Row {
	r := usage.Row{
		ID: uuidOf(prefix, i), Node: "gw-1", Key: "0123456789abcdefghijk" + string(rune('a'+i%7)), Team: "blue", Org: "default",
		Began: noon.Add(time.Duration(i) * 10 * time.Millisecond), Took: time.Second, Endpoint: "chat_completions", Dialect: "openai-chat",
		Model: "gpt-5", Target: "openai/gpt-5", Stream: true, Status: 200, Outcome: usage.Answered, Cost: new(usage.Money(i)),
	}
	r.Usage.Input, r.Usage.CacheRead, r.Usage.CacheWrite, r.Usage.Output, r.Usage.Reasoning = 1, 2, 3, 4, 5
	r.Attempts = []usage.Attempt{
		{Target: "local/m", Began: r.Began, Took: time.Millisecond, Fault: "refused", Cost: new(usage.Money(0))},
		{Target: "openai/gpt-5", Began: r.Began, Took: time.Second, Status: 200, Usage: r.Usage, Cost: r.Cost, Charged: true},
	}
	return r
}

func uuidOf(prefix string, i int) string {
	id := []byte("00000000-0000-4000-8000-000000000000")
	for at := len(id) - 1; i > 0; at, i = at-1, i/10 {
		id[at] = byte('0' + i%10)
	}
	copy(id, prefix)
	return strings.ToLower(string(id))
}

func bg() context.Context { return context.Background() }

// put appends rows as a log of their own.
func put(ctx context.Context, s *Store, rows []usage.Row) error {
	_, err := s.Append(ctx, usage.Batch{Log: rand.Text(), To: int64(max(1, len(rows))), Rows: rows})
	return err
}

// execute runs a statement that the store does not have.
func execute(ctx context.Context, s *Store, statement string, args ...any) error {
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error { return c.Exec(ctx, statement, args...) })
}

// spentSince returns what an account has spent since a time.
func spentSince(ctx context.Context, s *Store, account string, since time.Time) (usage.Money, error) {
	out, err := s.Spent(ctx, account, since)
	if err != nil {
		return 0, err
	}
	return out.Since[0], nil
}
