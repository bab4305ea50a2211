package relay

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// What the upstreams of a ledger's gateway cost, for one token: "two" is twice as
// dear as "up".
const (
	inputCost  usage.Money = 1_000
	outputCost usage.Money = 10_000
)

// ledger is the books of a gateway: a spool on the disk, limits in memory, and the
// rows that have come out of the spool. Every request is sent with one key.
type ledger struct {
	dir    string
	spool  *usage.Spool
	quotas *quota.Keeper
	caller access.Caller

	mu   sync.Mutex
	rows []usage.Row
}

// newLedger has limits for the key, if there are any.
func newLedger(t testing.TB, limits ...quota.Limit) *ledger {
	t.Helper()
	l := &ledger{dir: t.TempDir(), quotas: quota.NewMemory(quota.Options{})}
	l.caller = access.Caller{ID: "k1", Key: "k1", Team: "t1", Org: "o1", Criticality: "normal"}
	for _, limit := range limits {
		l.caller.Accounts = append(l.caller.Accounts, quota.Account{ID: "key:k1", Limit: limit})
	}
	var err error
	if l.spool, err = usage.OpenSpool(usage.SpoolOptions{Dir: l.dir, Node: "n1"}); err != nil {
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

// Append takes rows from the spool.
func (l *ledger) Append(_ context.Context, rows []usage.Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, rows...)
	return nil
}

// use gives the books to a gateway.
func (l *ledger) use(g *gateway) {
	g.state.Keys = holder{l}
	g.state.Books = Books{Node: "n1", Ledger: l.spool, Quotas: l.quotas, Prices: prices(nil)}
}

// prices are what the upstreams cost, and what others do where there is a ceiling.
func prices(ceiling *usage.Tariff) *usage.Book {
	b, err := usage.NewBook(usage.BookOptions{Ceiling: ceiling, Rules: map[string]usage.Tariff{
		"up/*": {Input: "1", Output: "10", CacheRead: "0.1"}, "two/*": {Input: "2", Output: "20"},
	}})
	if err != nil {
		panic(err) // the rules are written above
	}
	return b
}

// holder knows every request as one of the ledger's key.
type holder struct{ l *ledger }

func (h holder) Check(r *http.Request) (access.Caller, *llm.Error) {
	c, err := access.NewKeys(nil).Check(r) // which may everything
	k := h.l.caller
	c.ID, c.Key, c.Team, c.Org, c.Criticality, c.Accounts = k.ID, k.Key, k.Team, k.Org, k.Criticality, k.Accounts
	return c, err
}

// all are the rows so far, in the order in which they ended.
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

// one is the row of an exchange that is over, and wants it to be the only one, with
// nothing held for it any more.
func (l *ledger) one(t testing.TB, g *gateway) usage.Row {
	t.Helper()
	g.line(t) // it is over
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

// none wants that no row was written.
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

// left is what a budget still has: it is asked for, and given back.
func (l *ledger) left(t testing.TB) usage.Money {
	t.Helper()
	low, high := usage.Money(0), l.caller.Accounts[0].Limit.Budget
	for low < high {
		mid := high - (high-low)/2
		h, refusal := l.quotas.Reserve(t.Context(), quota.Ask{ID: "probe", Org: "o1", Cost: mid,
			Accounts: []quota.Account{{ID: "key:k1", Limit: quota.Limit{Budget: l.caller.Accounts[0].Limit.Budget}}}})
		if refusal != nil {
			high = mid - 1
			continue
		}
		h.Settle(0, 0)
		low = mid
	}
	return low
}

// wantSpent wants the budget to have paid for the row, and for nothing else.
func (l *ledger) wantSpent(t testing.TB, want usage.Money) {
	t.Helper()
	if spent := l.caller.Accounts[0].Limit.Budget - l.left(t); spent != want {
		t.Errorf("%v were taken from the budget, want %v", spent, want)
	}
}

// costOf is the price of tokens at "up".
func costOf(input, output int64) usage.Money {
	return usage.Money(input)*inputCost + usage.Money(output)*outputCost
}

// promptOf is what is reserved for a body before anybody has counted it.
func promptOf(body string) int64 { return int64(len(body))/promptBytes + 1 }

// likelyOf is what a body is taken for where nobody does.
func likelyOf(body string) int64 { return int64(len(body))/bytesPerToken + 1 }

// folder is where the process keeps its records.
func (l *ledger) folder(t testing.TB) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(l.dir, "run-*"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0]
}
