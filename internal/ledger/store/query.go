package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/sums"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Spent returns what an account has spent since each of several times, and in each log. All of it
// is of one moment.
func (s *Store) Spent(ctx context.Context, account string, since ...time.Time) (out quota.Spent, err error) {
	var w db.Where
	parts := []string{`SELECT -1, log, cost FROM log_spent WHERE account = ` + w.Arg(account)}
	for i, from := range since {
		sum, err := spentQuery(&w, account, from)
		if err != nil {
			return out, err
		}
		parts = append(parts, `SELECT `+strconv.Itoa(i)+`, '', CAST(COALESCE(sum(cost), 0) AS BIGINT) FROM (`+sum+`) parts`)
	}
	out.Since = make([]usage.Money, len(since))
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		out.Logs = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var n, cost int64
			var log string
			if err := row(&n, &log, &cost); err != nil {
				return err
			}
			cost = max(0, cost) // a negative sum would raise a budget
			if n < 0 {
				out.Logs = append(out.Logs, usage.Total{Log: log, Account: account, Spent: usage.Money(cost)})
			} else if n < int64(len(since)) {
				out.Since[n] = usage.Money(cost)
			}
			return nil
		}, strings.Join(parts, ` UNION ALL `), w.Args...)
	})
	return out, err
}

// spentQuery returns a query for the costs of an account's requests since a time. Whole hours, and
// whole minutes of teams and organisations, come from the sums; only the rest comes from the rows.
func spentQuery(w *db.Where, account string, since time.Time) (string, error) {
	from, to := nanos(since), roundUp(since, time.Hour)
	parts := []string{`SELECT cost FROM spent WHERE account = ` + w.Arg(account) + ` AND hour >= ` + w.Arg(to/int64(time.Hour))}
	if minute := roundUp(since, time.Minute); from < to {
		parts = append(parts, `SELECT cost FROM spent_minutes WHERE account = `+w.Arg(account)+
			` AND minute >= `+w.Arg(minute/int64(time.Minute))+` AND minute < `+w.Arg(to/int64(time.Minute)))
		if !isKey(account) { // keys have sums by minute of those requests only that have no rows
			to = minute
		}
	}
	if from < to {
		w.Conditions = nil
		if err := addAccount(w, account); err != nil {
			return "", err
		}
		w.Add("began >= ", from)
		w.Add("began < ", to)
		parts = append(parts, `SELECT cost FROM requests`+w.Text())
	}
	return strings.Join(parts, ` UNION ALL `), nil
}

// roundUp rounds a time up to an hour or a minute.
func roundUp(t time.Time, unit time.Duration) int64 {
	return (nanos(t) + int64(unit) - 1) / int64(unit) * int64(unit)
}

// addAccount selects the requests of an account.
func addAccount(w *db.Where, account string) error {
	what, id, _ := strings.Cut(account, ":")
	switch what {
	case "key":
		w.Add("key_id = ", id)
	case "team":
		org, team, _ := strings.Cut(id, "/")
		w.Add("org = ", org)
		w.Add("team = ", team)
	case "org":
		w.Add("org = ", id)
	default:
		return Error(fmt.Sprintf("account %q is none of key:ID, team:ORG/TEAM and org:ORG", account))
	}
	return nil
}

// Group is a column to group usage by.
type Group = sums.Group

// UsageQuery selects usage.
type UsageQuery = sums.Query

// Sum is the usage of a group.
type Sum = sums.Sum

// Place is what a sum is grouped by.
type Place = sums.Place

// MaxGroups bounds the size of a result, and ErrTooWide reports one with more groups.
const (
	MaxGroups  = sums.MaxGroups
	ErrTooWide = sums.ErrTooWide
)

// Totals returns the sum of all sums of a result, and the sums of its hours or days.
func Totals(list []Sum) (all Sum, times []Sum) { return sums.Totals(list) }

// The groups of usage.
const (
	ByHour   = sums.ByHour
	ByDay    = sums.ByDay
	ByOrg    = sums.ByOrg
	ByTeam   = sums.ByTeam
	ByKey    = sums.ByKey
	ByModel  = sums.ByModel
	ByTarget = sums.ByTarget
	ByUser   = sums.ByUser
)

// ByTag returns the group of a tag.
func ByTag(key string) Group { return sums.ByTag(key) }

// Usage sums the ledger. The result is ordered by its groups.
func (s *Store) Usage(ctx context.Context, q UsageQuery) (list []Sum, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
		list, err = q.Read(ctx, c)
		return err
	})
	return list, err
}
