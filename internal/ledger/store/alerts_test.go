package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

var percents = []int{50, 80, 100}

// forBudgets has the one receiver of alerts.url.
var forBudgets = map[string][]string{"budget": {""}}

// spender is a row of the key "k" of the team a/t.
func spender(id string, began time.Time, cost usage.Money) usage.Row {
	return usage.Row{ID: id, Node: "n", Key: "k", Team: "t", Org: "a", Began: began, Model: "m", Cost: &cost}
}

// budgetsOf returns a limit with budgets.
func budgetsOf(t testing.TB, all ...budget.Budget) (l quota.Limit) {
	t.Helper()
	no(t, l.SetBudgets(all))
	return l
}

// newSpender creates the key "k", its team and its organisation.
func newSpender(t testing.TB, s *Store, key, team, org quota.Limit) {
	t.Helper()
	no(t, s.CreateTenant(t.Context(), Tenant{Org: "a", Name: "Acme", Limit: org}))
	no(t, s.CreateTenant(t.Context(), Tenant{Org: "a", Team: "t", Name: "Search", Limit: team}))
	no(t, s.CreateKey(t.Context(), access.Record{ID: "k", Name: "ci", Org: "a", Team: "t", Limit: key, Digests: []access.Digest{{Pepper: 1}}}))
}

// alerts returns all alerts, as account, budget and threshold, in order.
func alerts(t testing.TB, s *Store) (list []string) {
	t.Helper()
	no(t, s.db.Read(t.Context(), func(ctx context.Context, c db.Conn) error {
		list = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var a Alert
			err := row(&a.Account, &a.Budget, &a.Threshold, &a.Spent)
			list = append(list, fmt.Sprint(a.Account, " ", int64(a.Budget), " ", a.Threshold))
			if a.Spent*100 < a.Budget*usage.Money(a.Threshold) {
				t.Errorf("%s with %d spent", list[len(list)-1], a.Spent)
			}
			return err
		}, `SELECT account, budget, threshold, spent FROM alerts`)
	}))
	slices.Sort(list)
	return list
}

// TestAlertsAreWrittenOnce sends the rows of a key, a team and an organisation through two nodes at
// once, every batch twice and out of order, until all thresholds of all budgets are passed.
func TestAlertsAreWrittenOnce(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		nodes := []*Store{opened(t, url, Options{Migrate: true, Alerts: AlertRules{Thresholds: percents, Receivers: forBudgets}})}
		const rows, cost = 400, 10
		newSpender(t, nodes[0],
			budgetsOf(t, budget.Budget{Amount: 1000, Window: 24 * time.Hour}, budget.Budget{Amount: 3999, Window: 720 * time.Hour}),
			budgetsOf(t, budget.Budget{Amount: 4000}),
			budgetsOf(t, budget.Budget{Amount: 4001, Window: 48 * time.Hour}, budget.Budget{Amount: 1e9, Window: time.Hour}))
		nodes = append(nodes, opened(t, url, Options{Migrate: true, Alerts: AlertRules{Thresholds: percents, Receivers: forBudgets}})) // the tables exist now
		now := time.Now()
		var wg sync.WaitGroup
		for n := range nodes {
			wg.Go(func() {
				log := fmt.Sprint("log", n)
				for first := 0; first < rows; first += 8 {
					b := usage.Batch{Log: log, After: int64(first), To: int64(first + 8)}
					for i := range 8 { // half of the rows come from both nodes, as after an adoption
						// Its other rows are in other hours than those of the other node's batch.
						id, hour := fmt.Sprint(n, "-", first+i), first/8+n
						if i%2 == 0 {
							id, hour = fmt.Sprint("both-", first+i), first/8
						}
						b.Rows = append(b.Rows, spender(id, now.Add(-time.Duration(1+hour%5)*time.Hour), cost))
					}
					for range 2 { // the reply to the first was lost
						if have, err := nodes[n].Append(t.Context(), b); err != nil || have != b.To {
							t.Errorf("%d, %v", have, err)
						}
					}
				}
			})
		}
		wg.Wait()
		var want []string
		for _, of := range []string{"key:k 1000", "key:k 3999", "team:a/t 4000", "org:a 4001"} {
			for _, p := range percents {
				want = append(want, fmt.Sprint(of, " ", p))
			}
		}
		slices.Sort(want)
		if got := alerts(t, nodes[0]); !slices.Equal(got, want) {
			t.Errorf("%d alerts: %v\nwant %d: %v", len(got), got, len(want), want)
		}
		spent, err := nodes[0].Spent(t.Context(), "key:k", time.Time{})
		t.Logf("%d alerts of %v spent in %d batches, each sent twice", len(want), int64(spent.Since[0]), 2*rows/8)
		if err != nil || spent.Since[0] != 600*cost {
			t.Errorf("spent %v, %v", spent, err)
		}
	})
}

// TestAlertsAtTheLastRow counts a row while a transaction that has counted another one, in another hour,
// is still open. Each alone does not pass the threshold, and no later row comes.
func TestAlertsAtTheLastRow(t *testing.T) {
	s := opened(t, database(t), Options{Migrate: true, Alerts: AlertRules{Thresholds: []int{100}, Receivers: forBudgets}})
	newSpender(t, s, budgetsOf(t, budget.Budget{Amount: 20, Window: 24 * time.Hour}), quota.Limit{}, quota.Limit{})
	count := func(n int, then func(db.Conn)) {
		r := spender(fmt.Sprint(n), time.Now().Add(-time.Duration(2*n+1)*time.Hour), 10)
		r.Team, r.Org = "", fmt.Sprint("other", n) // only the key is shared
		if err := s.db.Write(t.Context(), func(ctx context.Context, c db.Conn) error {
			if err := appendRows(ctx, c, fmt.Sprint(n), []usage.Row{r}); err != nil {
				return err
			}
			if err := s.raiseAlerts(ctx, c, []usage.Row{r}); err != nil {
				return err
			}
			then(c)
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	var second sync.WaitGroup
	var counted atomic.Bool
	count(0, func(c db.Conn) {
		second.Go(func() { count(1, func(db.Conn) { counted.Store(true) }) })
		for waiting := 0; waiting == 0 && !counted.Load(); {
			no(t, c.Row(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)(&waiting))
		}
	})
	second.Wait()
	if got := alerts(t, s); !slices.Equal(got, []string{"key:k 20 100"}) {
		t.Errorf("%d alerts, want 1", len(got))
	}
}

// TestAlertsComeAgain checks when a threshold that was passed causes a further alert: after the
// window, and for another amount.
func TestAlertsComeAgain(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := opened(t, url, Options{Migrate: true, Alerts: AlertRules{Thresholds: percents, Receivers: forBudgets}})
		newSpender(t, s, budgetsOf(t, budget.Budget{Amount: 100, Window: time.Hour}), quota.Limit{}, quota.Limit{})
		n := int64(0)
		spend := func(cost usage.Money, want ...string) {
			t.Helper()
			before := len(alerts(t, s))
			_, err := s.Append(t.Context(), usage.Batch{Log: "l", After: n, To: n + 1, Rows: []usage.Row{spender(fmt.Sprint(n), time.Now(), cost)}})
			no(t, err)
			n++
			if got := len(alerts(t, s)) - before; got != len(want) {
				t.Errorf("%d alerts after %d, want %v: %v", got, n, want, alerts(t, s))
			}
			for _, w := range want {
				if !slices.Contains(alerts(t, s), w) {
					t.Errorf("%v lack %s", alerts(t, s), w)
				}
			}
		}
		spend(49)
		spend(1, "key:k 100 50")
		spend(1)
		spend(60, "key:k 100 80", "key:k 100 100")
		spend(500)
		// An hour later.
		no(t, execute(t.Context(), s, `UPDATE alert_marks SET until = until - $1`, int64(time.Hour)))
		spend(0) // a request that costs nothing passes nothing
		spend(1, "key:k 100 50", "key:k 100 80", "key:k 100 100")
		spend(1)
		_, err := s.UpdateKey(t.Context(), "k", func(r *access.Record) error {
			r.Limit = budgetsOf(t, budget.Budget{Amount: 1000, Window: time.Hour}, budget.Budget{Amount: 2000})
			return nil
		})
		no(t, err)
		spend(1, "key:k 1000 50") // 614 of 1000
		spend(400, "key:k 1000 80", "key:k 1000 100", "key:k 2000 50")
		if a, found, err := s.ClaimAlert(t.Context(), []string{""}, time.Minute); err != nil || !found || a.Account != "key:k" || a.Name != "ci" || a.Org != "a" || a.Team != "t" ||
			a.Budget != 100 || a.Spent != 50 || a.Threshold != 50 || a.Window != time.Hour || a.Tries != 1 || time.Since(a.Created) > time.Hour || a.ID == "" {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestAlertLeases checks that one node at a time has an alert, and that a node whose lease has ended
// changes nothing.
func TestAlertLeases(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := opened(t, url, Options{Migrate: true, Alerts: AlertRules{Thresholds: []int{1}, Receivers: forBudgets}})
		newSpender(t, s, quota.Limit{}, quota.Limit{}, budgetsOf(t, budget.Budget{Amount: 100}, budget.Budget{Amount: 100, Window: time.Hour}))
		_, err := s.Append(t.Context(), usage.Batch{Log: "l", To: 1, Rows: []usage.Row{spender("1", time.Now(), 1)}})
		no(t, err)
		claim := func(lease time.Duration, want bool) Alert {
			t.Helper()
			a, found, err := s.ClaimAlert(t.Context(), []string{""}, lease)
			if err != nil || found != want {
				t.Fatalf("%+v, %t, %v", a, found, err)
			}
			return a
		}
		first, second := claim(time.Minute, true), claim(-time.Second, true)
		if first.ID == second.ID {
			t.Fatalf("%s has two leases", first.ID)
		}
		again := claim(time.Minute, true) // the lease of the second has ended
		if again.ID != second.ID || again.Tries != 2 {
			t.Fatalf("%+v", again)
		}
		no(t, s.EndAlert(t.Context(), second, true)) // too late
		no(t, s.RetryAlert(t.Context(), second, time.Now().Add(-time.Second)))
		claim(time.Minute, false)
		no(t, s.RetryAlert(t.Context(), again, time.Now().Add(-time.Second)))
		third := claim(time.Minute, true)
		no(t, s.EndAlert(t.Context(), third, true))
		no(t, s.EndAlert(t.Context(), first, false))
		claim(time.Minute, false)
	})
}
