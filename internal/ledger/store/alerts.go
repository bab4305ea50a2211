package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Alert reports that the spending of a budget has passed a threshold, or else the conditions in Detail.
type Alert struct {
	ID        string // the same for every attempt to deliver it
	Receiver  string // the name of its receiver in the configuration; empty: the one without a name
	Event     string // the same for every receiver
	Type      string // BudgetPassed, or of Detail
	Detail    AlertDetail
	Created   time.Time
	Account   string // key:ID, team:ORG/TEAM or org:ORG
	Name      string // of the key, team or organisation
	Org, Team string
	Budget    usage.Money
	Window    time.Duration // 0: all time
	Spent     usage.Money   // in the window
	Threshold int           // in percent of the budget
	Tries     int           // attempts to deliver it, with the present one
}

// BudgetPassed is the type of an alert about a budget.
const BudgetPassed = "budget.threshold_passed"

// AlertDetail is what an alert is about that is not about a budget.
type AlertDetail struct {
	Node       string      `json:"node"`
	Conditions []Condition `json:"conditions"`
	More       int         `json:"more,omitempty"` // further ones
}

// Condition is a state that a person should know.
type Condition struct {
	Subject string `json:"subject"` // what is in this state; the same on all nodes
	Text    string `json:"text"`    // how it is
}

// AlertRules say which alerts the store writes.
type AlertRules struct {
	// Thresholds of budgets in percent, ascending.
	Thresholds []int
	// Receivers are the names of the receivers of each topic: an alert's type up to the dot.
	Receivers map[string][]string
}

// receivers returns those of a type of alert.
func (r AlertRules) receivers(kind string) []string {
	topic, _, _ := strings.Cut(kind, ".")
	return r.Receivers[topic]
}

// newAlerts returns the rows of an alert for each receiver.
func newAlerts(a Alert, receivers []string, detail string) db.Insert {
	in := db.Insert{
		Head: `INSERT INTO alerts (id, created, account, name, org, team, span, budget, spent, threshold, tries, due, ended, delivered, receiver, event, type, detail) `,
		Tail: ` ON CONFLICT DO NOTHING`,
	}
	for _, name := range receivers {
		in.Rows = append(in.Rows, []any{"msg_" + rand.Text(), a.Created.UnixNano(), a.Account, a.Name, a.Org, a.Team, int64(a.Window), int64(a.Budget), int64(a.Spent), int64(a.Threshold),
			int64(0), time.Now().UnixNano(), int64(0), false, name, a.Event, a.Type, detail})
	}
	return in
}

// owner is a key, a team or an organisation with budgets.
type owner struct {
	account, name, org, team string
	budgets                  []budget.Budget
}

// mark identifies a threshold of a budget of an account. A budget with another amount is another one.
type mark struct {
	account   string
	budget    budget.Budget
	threshold int
}

// amount returns the spending at which the threshold is passed, rounded up.
func (m mark) amount() usage.Money {
	n := usage.Money(m.threshold)
	return m.budget.Amount/100*n + (m.budget.Amount%100*n+99)/100
}

// raiseAlerts writes an alert for each threshold that an account of the rows has passed. A mark, which
// lasts for the window of the budget, keeps it from being written again. It runs in the transaction
// that adds the rows to the sums, so that each alert is written exactly once.
func (s *Store) raiseAlerts(ctx context.Context, c db.Conn, rows []usage.Row) error {
	if len(s.alerts.Thresholds) == 0 || len(s.alerts.receivers(BudgetPassed)) == 0 {
		return nil
	}
	owners, err := readOwners(ctx, c, rows)
	if err != nil || len(owners) == 0 {
		return err
	}
	names := make([]string, len(owners))
	for i, o := range owners {
		names[i] = o.account
	}
	list, err := toJSON(names)
	if err != nil {
		return err
	}
	if err := c.Lock(ctx, list); err != nil { // a transaction that has counted another row of an account must be seen
		return err
	}
	now := time.Now()
	passed, err := readMarks(ctx, c, list, now)
	if err != nil {
		return err
	}
	most := map[time.Duration]map[string]usage.Money{} // by window
	for _, o := range owners {
		for _, b := range o.budgets {
			open := slices.DeleteFunc(slices.Clone(s.alerts.Thresholds), func(percent int) bool { return passed[mark{o.account, b, percent}] })
			if len(open) == 0 {
				continue
			}
			if most[b.Window] == nil {
				if most[b.Window], err = spentAtMost(ctx, c, list, sinceWindow(now, b.Window)); err != nil {
					return err
				}
			}
			if most[b.Window][o.account] < (mark{o.account, b, open[0]}).amount() {
				continue
			}
			if err := s.raise(ctx, c, o, b, open, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// sinceWindow returns the begin of a window.
func sinceWindow(now time.Time, window time.Duration) time.Time {
	if window == 0 {
		return time.Unix(0, 0)
	}
	return now.Add(-window)
}

// raise writes the alerts of one budget.
func (s *Store) raise(ctx context.Context, c db.Conn, o owner, b budget.Budget, thresholds []int, now time.Time) error {
	var w db.Where
	parts, err := spentQuery(&w, o.account, sinceWindow(now, b.Window))
	if err != nil {
		return err
	}
	var spent int64
	if err := c.Row(ctx, `SELECT CAST(COALESCE(sum(cost), 0) AS BIGINT) FROM (`+parts+`) parts`, w.Args...)(&spent); err != nil {
		return err
	}
	until := int64(math.MaxInt64)
	if b.Window > 0 {
		until = now.Add(b.Window).UnixNano()
	}
	marks := newMarks()
	var alerts db.Insert
	for _, percent := range thresholds {
		if usage.Money(spent) < (mark{o.account, b, percent}).amount() {
			break
		}
		marks.Rows = append(marks.Rows, []any{o.account, int64(b.Window), int64(b.Amount), int64(percent), until})
		one := newAlerts(Alert{Event: newEvent(), Type: BudgetPassed, Created: now, Account: o.account, Name: o.name, Org: o.org, Team: o.team, Budget: b.Amount, Window: b.Window,
			Spent: usage.Money(spent), Threshold: percent}, s.alerts.receivers(BudgetPassed), "")
		one.Rows = append(alerts.Rows, one.Rows...)
		alerts = one
	}
	if err := marks.Run(ctx, c); err != nil {
		return err
	}
	return alerts.Run(ctx, c)
}

func newEvent() string { return "evt_" + rand.Text() }

// RaiseConditions writes an alert about those of the conditions that were not given to it before, by any node, in the time
// hold. A condition that stays and is given often enough causes no further alert.
func (s *Store) RaiseConditions(ctx context.Context, kind, node string, found []Condition, hold time.Duration) error {
	receivers := s.alerts.receivers(kind)
	if len(receivers) == 0 || len(found) == 0 {
		return nil
	}
	accounts := make([]string, len(found))
	for i, f := range found {
		accounts[i] = kind + ":" + f.Subject
	}
	list, err := toJSON(accounts)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		if err := c.Lock(ctx, list); err != nil { // another node may have the same conditions now
			return err
		}
		now := time.Now()
		until, err := readUntil(ctx, c, list, now)
		if err != nil {
			return err
		}
		marks := newMarks()
		detail := AlertDetail{Node: node}
		for i, f := range found {
			known, marked := until[accounts[i]], slices.ContainsFunc(marks.Rows, func(row []any) bool { return row[0] == accounts[i] })
			if marked || known.After(now.Add(hold/2)) {
				continue
			}
			marks.Rows = append(marks.Rows, []any{accounts[i], int64(0), int64(0), int64(0), now.Add(hold).UnixNano()})
			switch {
			case !known.IsZero():
			case len(detail.Conditions) == maxConditions:
				detail.More++
			default:
				detail.Conditions = append(detail.Conditions, f)
			}
		}
		if err := marks.Run(ctx, c); err != nil || len(detail.Conditions) == 0 {
			return err
		}
		text, err := json.Marshal(detail)
		if err != nil {
			return err
		}
		return newAlerts(Alert{Event: newEvent(), Type: kind, Created: now}, receivers, string(text)).Run(ctx, c)
	})
}

// maxConditions is how many conditions an alert names.
const maxConditions = 20

// readUntil returns until when accounts have marks.
func readUntil(ctx context.Context, c db.Conn, accounts string, now time.Time) (map[string]time.Time, error) {
	until := map[string]time.Time{}
	return until, c.Rows(ctx, func(row db.Scan) error {
		var account string
		var n int64
		err := row(&account, &n)
		until[account] = fromNanos(n)
		return err
	}, `SELECT account, until FROM alert_marks WHERE account IN (`+c.List()+`) AND until > $2`, accounts, now.UnixNano())
}

func newMarks() db.Insert {
	return db.Insert{
		Head: `INSERT INTO alert_marks (account, span, budget, threshold, until) `,
		Tail: ` ON CONFLICT (account, span, budget, threshold) DO UPDATE SET until = excluded.until`,
	}
}

// readOwners returns those of the rows' accounts that have budgets now, ordered by account.
func readOwners(ctx context.Context, c db.Conn, rows []usage.Row) (owners []owner, err error) {
	keys, teams, orgs, pairs := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if r.Charged() == 0 {
			continue
		}
		keys[r.Key], orgs[r.Org] = true, true
		if r.Team != "" {
			teams[r.Team], pairs[r.Org+"/"+r.Team] = true, true
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	add := func(kind string) func(row db.Scan) error {
		return func(row db.Scan) error {
			var o owner
			var id string
			var l quota.Limit
			if err := row(&id, &o.name, &o.org, &o.team, &l.Budget, &l.Window, &l.More); err != nil {
				return err
			}
			o.account, o.budgets = kind+":"+id, l.Budgets()
			if len(o.budgets) > 0 && (kind != "team" || pairs[id]) {
				owners = append(owners, o)
			}
			return nil
		}
	}
	const columns, with = `budget, budget_window, substr(budgets, 1, 256)`, ` AND (budget > 0 OR budgets <> '')`
	lists := make([]string, 3)
	for i, names := range []map[string]bool{keys, teams, orgs} {
		if lists[i], err = toJSON(slices.Sorted(maps.Keys(names))); err != nil {
			return nil, err
		}
	}
	err = c.Rows(ctx, add("key"), `SELECT id, name, org, COALESCE(team, ''), `+columns+` FROM keys WHERE id IN (`+c.List()+`)`+with, lists[0])
	if err != nil {
		return nil, err
	}
	err = c.Rows(ctx, add("org"), `SELECT id, name, id, '', `+columns+` FROM orgs WHERE id IN (`+c.List()+`)`+with, lists[2])
	if err != nil {
		return nil, err
	}
	err = c.Rows(ctx, add("team"), `SELECT org || '/' || id, name, org, id, `+columns+` FROM teams WHERE org IN (`+c.List()+`) AND id IN (`+
		strings.Replace(c.List(), "$1", "$2", 1)+`)`+with, lists[2], lists[1])
	slices.SortFunc(owners, func(a, b owner) int { return cmp.Compare(a.account, b.account) })
	return owners, err
}

// readMarks returns the thresholds of accounts that were passed and cause no alert until later.
func readMarks(ctx context.Context, c db.Conn, accounts string, now time.Time) (map[mark]bool, error) {
	passed := map[mark]bool{}
	return passed, c.Rows(ctx, func(row db.Scan) error {
		var m mark
		err := row(&m.account, &m.budget.Window, &m.budget.Amount, &m.threshold)
		passed[m] = true
		return err
	}, `SELECT account, span, budget, threshold FROM alert_marks WHERE account IN (`+c.List()+`) AND until > $2`, accounts, now.UnixNano())
}

// spentAtMost returns what accounts have spent since the begin of an hour.
func spentAtMost(ctx context.Context, c db.Conn, accounts string, since time.Time) (map[string]usage.Money, error) {
	sums := map[string]usage.Money{}
	return sums, c.Rows(ctx, func(row db.Scan) error {
		var account string
		var cost int64
		err := row(&account, &cost)
		sums[account] = usage.Money(cost)
		return err
	}, `SELECT account, CAST(sum(cost) AS BIGINT) FROM spent WHERE account IN (`+c.List()+`) AND hour >= $2 GROUP BY account`, accounts, hourOf(since))
}

const alertColumns = `id, created, account, name, org, team, span, budget, spent, threshold, tries, receiver, event, type, substr(detail, 1, 65536)`

func scanAlert(row db.Scan) (a Alert, err error) {
	var created int64
	var detail string
	if err := row(&a.ID, &created, &a.Account, &a.Name, &a.Org, &a.Team, &a.Window, &a.Budget, &a.Spent, &a.Threshold, &a.Tries, &a.Receiver, &a.Event, &a.Type, &detail); err != nil {
		return a, err
	}
	a.Created, a.Type = fromNanos(created), cmp.Or(a.Type, BudgetPassed)
	if detail == "" {
		return a, nil
	}
	if err := json.Unmarshal([]byte(detail), &a.Detail); err != nil { // written by another hand: it is delivered without
		a.Detail = AlertDetail{}
	}
	return a, nil
}

// ClaimAlert returns an alert for one of the receivers that is due, or false if there is none. No other node gets it
// before the lease ends.
func (s *Store) ClaimAlert(ctx context.Context, receivers []string, lease time.Duration) (a Alert, found bool, err error) {
	list, err := toJSON(receivers)
	if err != nil || len(receivers) == 0 {
		return a, false, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		now := time.Now()
		a, err = scanAlert(c.Row(ctx, `UPDATE alerts SET due = $2, tries = tries + 1 WHERE ended = 0 AND due <= $3 AND id =
			(SELECT id FROM alerts WHERE ended = 0 AND due <= $3 AND receiver IN (`+c.List()+`) ORDER BY due LIMIT 1) RETURNING `+alertColumns, list, now.Add(lease).UnixNano(), now.UnixNano()))
		found = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return a, found, err
}

// AdoptAlerts gives alerts to the receivers of their topic that have been due for a while and whose receiver is none of
// these: it has another name now, or was removed. A receiver that has had the alert does not get it again. It returns
// the number of these alerts.
func (s *Store) AdoptAlerts(ctx context.Context, receivers []string, overdue time.Duration) (n int, err error) {
	list, err := toJSON(receivers)
	if err != nil {
		return 0, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		now := time.Now()
		var left []Alert
		if err := c.Rows(ctx, func(row db.Scan) error {
			a, err := scanAlert(row)
			left = append(left, a)
			return err
		}, `SELECT `+alertColumns+` FROM alerts WHERE ended = 0 AND due < $2 AND receiver NOT IN (`+c.List()+`) ORDER BY due LIMIT 100`, list, now.Add(-overdue).UnixNano()); err != nil {
			return err
		}
		n = len(left)
		for _, a := range left {
			var detail []byte
			if len(a.Detail.Conditions) > 0 {
				if detail, err = json.Marshal(a.Detail); err != nil {
					return err
				}
			}
			a.Event = cmp.Or(a.Event, a.ID)
			if err := newAlerts(a, s.alerts.receivers(a.Type), string(detail)).Run(ctx, c); err != nil {
				return err
			}
			if err := c.Exec(ctx, `UPDATE alerts SET ended = $1 WHERE id = $2 AND ended = 0`, now.UnixNano(), a.ID); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// ExpiringKey is a key whose end is near.
type ExpiringKey struct {
	ID, Name, Org, Team string
	Expires             time.Time
}

// ExpiringKeys returns the keys that expire within a time, the first ones first, at most max. It leaves out keys that
// were created for no longer than that.
func (s *Store) ExpiringKeys(ctx context.Context, within time.Duration, most int) (list []ExpiringKey, err error) {
	now := time.Now()
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var k ExpiringKey
			var expires int64
			err := row(&k.ID, &k.Name, &k.Org, &k.Team, &expires)
			k.Expires = fromNanos(expires)
			list = append(list, k)
			return err
		}, `SELECT id, name, org, COALESCE(team, ''), expires FROM keys WHERE revoked = 0 AND removed = 0 AND expires > $1 AND expires <= $2 AND expires - created > $3
			ORDER BY expires, id LIMIT $4`, now.UnixNano(), now.Add(within).UnixNano(), int64(within), int64(most))
	})
	return list, err
}

// keptAlerts is how long alerts stay after their end, and marks after theirs.
const keptAlerts = 30 * 24 * time.Hour

// EndAlert records that a claimed alert was delivered, or given up. It has no effect if another node has
// claimed the alert since.
func (s *Store) EndAlert(ctx context.Context, a Alert, delivered bool) error {
	now := time.Now()
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		if err := c.Exec(ctx, `UPDATE alerts SET ended = $1, delivered = $2 WHERE id = $3 AND tries = $4 AND ended = 0`, now.UnixNano(), delivered, a.ID, int64(a.Tries)); err != nil {
			return err
		}
		old := now.Add(-keptAlerts).UnixNano()
		if err := c.Exec(ctx, `DELETE FROM alerts WHERE ended > 0 AND ended < $1`, old); err != nil {
			return err
		}
		return c.Exec(ctx, `DELETE FROM alert_marks WHERE until < $1`, old)
	})
}

// RetryAlert records that a claimed alert is to be tried again.
func (s *Store) RetryAlert(ctx context.Context, a Alert, due time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Exec(ctx, `UPDATE alerts SET due = $1 WHERE id = $2 AND tries = $3 AND ended = 0`, due.UnixNano(), a.ID, int64(a.Tries))
	})
}
