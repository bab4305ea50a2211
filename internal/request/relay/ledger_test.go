package relay

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Prices per token of the two upstreams. "two" costs twice as much as "up".
const (
	inputCost  usage.Money = 1_000
	outputCost usage.Money = 10_000
)

// ledger is a gateway's accounting: a spool on disk, limits in memory, and the rows that
// the spool has delivered. Every request uses the same key.
type ledger struct {
	dir    string
	spool  *spool.Spool
	quotas *quota.Limiter
	caller access.Caller

	mu   sync.Mutex
	rows []usage.Row
}

// newLedger returns a ledger whose key has the given limits.
func newLedger(t testing.TB, limits ...quota.Limit) *ledger {
	t.Helper()
	l := &ledger{dir: t.TempDir(), quotas: quota.NewMemory(quota.Options{})}
	l.caller = access.Caller{ID: "k1", Key: "k1", Team: "t1", Org: "o1", Criticality: "normal"}
	for _, limit := range limits {
		l.caller.Accounts = append(l.caller.Accounts, quota.Account{ID: "key:k1", Limit: limit})
	}
	var err error
	if l.spool, err = spool.Open(spool.Options{Dir: l.dir, Node: "n1"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var drained sync.WaitGroup
	drained.Go(func() { l.spool.Drain(ctx, l, nil) })
	t.Cleanup(func() {
		stop()
		drained.Wait()
		l.quotas.Close()
		if err := l.spool.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Append receives rows from the spool.
func (l *ledger) Append(_ context.Context, b usage.Batch) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, b.Rows...)
	return b.To, nil
}

// Finish ends a log.
func (l *ledger) Finish(context.Context, string) error { return nil }

// use configures a gateway with the ledger.
func (l *ledger) use(g *gateway) {
	g.state.Keys = holder{l}
	g.state.Books = Books{Books: billing.Books{Node: "n1", Ledger: l.spool, Quotas: l.quotas, Prices: prices(nil)}}
}

// prices returns the price book. ceiling, if set, is the price of models without a price
// of their own.
func prices(ceiling *usage.Tariff) *usage.Book {
	b, err := usage.NewBook(usage.BookOptions{Ceiling: ceiling, Rules: map[string]usage.Tariff{
		"up/*": {Input: "1", Output: "10", CacheRead: "0.1"}, "two/*": {Input: "2", Output: "20"},
	}})
	if err != nil {
		panic(err) // the rules above are constant
	}
	return b
}

// holder authenticates every request as the ledger's key.
type holder struct{ l *ledger }

func (h holder) Check(r *http.Request) (access.Caller, *llm.Error) {
	c, err := access.NewKeys(nil).Check(r) // a caller with all permissions
	k := h.l.caller
	c.ID, c.Key, c.Person, c.Team, c.Org, c.Criticality, c.Accounts = k.ID, k.Key, k.Person, k.Team, k.Org, k.Criticality, k.Accounts
	return c, err
}

// all returns the rows so far, in the order in which they ended.
func (l *ledger) all(t testing.TB) []usage.Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.spool.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows)
}

// one waits for the end of the exchange and returns its row. It checks that this is the
// only row and that no reservation remains.
func (l *ledger) one(t testing.TB, g *gateway) usage.Row {
	t.Helper()
	g.line(t) // wait for the end of the exchange
	rows := l.all(t)
	if len(rows) != 1 {
		t.Fatalf("there are %d rows: %+v", len(rows), rows)
	}
	l.wantNothingHeld(t)
	r := rows[0]
	if len(r.ID) != 36 || r.Node != "n1" || r.Key != "k1" || r.Team != "t1" || r.Org != "o1" || r.Began.IsZero() || r.Took <= 0 {
		t.Errorf("the row says %+v", r)
	}
	return r
}

// none checks that no row was written.
func (l *ledger) none(t testing.TB, g *gateway) {
	t.Helper()
	g.line(t)
	if rows := l.all(t); len(rows) != 0 {
		t.Errorf("there are rows: %+v", rows)
	}
	l.wantNothingHeld(t)
}

func (l *ledger) wantNothingHeld(t testing.TB) {
	t.Helper()
	if n := l.quotas.Snapshot().Open; n != 0 {
		t.Errorf("%d reservations are open", n)
	}
	if n := l.spool.Snapshot().Open; n != 0 {
		t.Errorf("%d rows are open", n)
	}
}

// left returns the balance of the budget. It finds it by reserving and releasing.
func (l *ledger) left(t testing.TB) usage.Money {
	t.Helper()
	low, high := usage.Money(0), l.caller.Accounts[0].Limit.Budget
	for low < high {
		mid := high - (high-low)/2
		h, refusal := l.quotas.Reserve(t.Context(), quota.Request{ID: "probe", Org: "o1", Cost: mid,
			Accounts: []quota.Account{{ID: "key:k1", Limit: quota.Limit{Budget: l.caller.Accounts[0].Limit.Budget}}}})
		if refusal != nil {
			high = mid - 1
			continue
		}
		h.Settle(0, 0, usage.Totals{})
		low = mid
	}
	return low
}

// wantSpent checks the total that the budget was charged.
func (l *ledger) wantSpent(t testing.TB, want usage.Money) {
	t.Helper()
	if spent := l.caller.Accounts[0].Limit.Budget - l.left(t); spent != want {
		t.Errorf("%v were taken from the budget, want %v", spent, want)
	}
}

// costOf returns the price of tokens at the upstream "up".
func costOf(input, output int64) usage.Money {
	return usage.Money(input)*inputCost + usage.Money(output)*outputCost
}

// Constants of the token estimates in internal/money/billing.
const (
	bytesPerToken = 4
	outputStep    = 4 << 10 // tokens reserved at a time for a response without a limit
)

// promptOf returns the input tokens that are reserved for a request body.
func promptOf(body string) int64 { return int64(len(body))/2 + 1 }

// likelyOf returns the input tokens that are charged for a request body if the upstream
// reports no usage.
func likelyOf(body string) int64 { return int64(len(body))/bytesPerToken + 1 }

// folder returns the folder in which the process keeps its ledger files.
func (l *ledger) folder(t testing.TB) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(l.dir, "run-*"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0]
}
