package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/sums"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// maxRefused is the highest count of a process, key, reason and minute. Sums of counts fit into 64 bits.
const maxRefused = 1_000_000_000

// AppendRefusals adds counts of refused requests, and rows of some of them, which no sum has. Adding a batch twice
// changes nothing.
func (s *Store) AppendRefusals(ctx context.Context, b usage.Refusals) error {
	rows, err := distinct(slices.DeleteFunc(slices.Clone(b.Rows), func(r usage.Row) bool { return r.ID == "" }))
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Outcome, rows[i].Cost = usage.Refused, new(usage.Money)
	}
	in := db.Insert{
		Head: `INSERT INTO refusals (minute, org, team, key_id, reason, log, node, count) `,
		Tail: ` ON CONFLICT (minute, org, team, key_id, reason, log) DO UPDATE SET count = CASE WHEN refusals.count < excluded.count THEN excluded.count ELSE refusals.count END`,
	}
	for _, c := range BoundRefusals(b.Counts) {
		in.Rows = append(in.Rows, []any{minuteOf(c.Minute), c.Org, c.Team, c.Key, string(c.Reason), c.Log, c.Node, c.Count})
	}
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		if err := in.Run(ctx, c); err != nil {
			return err
		}
		return insertRows(ctx, c, rows, nil)
	})
}

// BoundRefusals returns counts within the bounds of the store, each place once, in the order in which they are written:
// processes that write the same counts wait for each other's locks in this order.
func BoundRefusals(counts []usage.RefusalCount) []usage.RefusalCount {
	list := slices.Clone(counts)
	for i := range list {
		c := &list[i]
		for _, text := range []*string{&c.Log, &c.Node, &c.Org, &c.Team, &c.Key, (*string)(&c.Reason)} {
			*text = bounds.Text(*text)
		}
		c.Count = bounds.Clamp(c.Count, maxRefused)
	}
	place := func(a, b usage.RefusalCount) int {
		return cmp.Or(cmp.Compare(minuteOf(a.Minute), minuteOf(b.Minute)), cmp.Compare(a.Org, b.Org), cmp.Compare(a.Team, b.Team), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Log, b.Log))
	}
	slices.SortFunc(list, func(a, b usage.RefusalCount) int { return cmp.Or(place(a, b), cmp.Compare(b.Count, a.Count)) }) // the highest first
	return slices.CompactFunc(list, func(a, b usage.RefusalCount) bool { return place(a, b) == 0 })
}

// RefusalQuery selects refusals. An empty field selects all. From is inclusive, To exclusive; both are rounded to the
// minute, From down and To up.
type RefusalQuery struct {
	From, To       time.Time
	Org, Team, Key string
}

// Minutes returns the range of time in minutes since 1970, its end exclusive.
func (q *RefusalQuery) Minutes() (from, to int64) {
	from, to = minuteOf(q.From), minuteOf(time.Now().Add(24*time.Hour))
	if !q.To.IsZero() {
		to = minuteOf(q.To.Add(time.Minute - 1))
	}
	return from, to
}

// Refused is how many requests of a key were refused for a reason.
type Refused struct {
	Org, Team, Key string // Key is empty: of keys for which a process had no room
	Reason         usage.Reason
	Count          int64
	Last           time.Time // the minute of the last one
}

// MaxRefused bounds the size of a result of Refusals.
const MaxRefused = 1000

// Refusals returns the refused requests by key and reason, those with the most first.
func (s *Store) Refusals(ctx context.Context, q RefusalQuery) (list []Refused, err error) {
	var w db.Where
	from, to := q.Minutes()
	w.Add("minute >= ", from)
	w.Add("minute < ", to)
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Team != "", "team = ", q.Team)
	w.AddIf(q.Key != "", "key_id = ", q.Key)
	query := `SELECT org, team, key_id, reason, CAST(sum(count) AS BIGINT) AS n, max(minute) FROM refusals` + w.Text() +
		` GROUP BY org, team, key_id, reason ORDER BY n DESC, org, team, key_id, reason LIMIT ` + w.Arg(int64(MaxRefused))
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var r Refused
			var minute int64
			err := row(&r.Org, &r.Team, &r.Key, (*string)(&r.Reason), &r.Count, &minute)
			r.Last = fromNanos(minute * int64(time.Minute))
			list = append(list, r)
			return err
		}, query, w.Args...)
	})
	return list, err
}

// AddRefused adds the counts of refused requests to the sums of a result with the same groups.
func AddRefused(list, refused []Sum, groups []Group) []Sum {
	return sums.AddRefused(list, refused, groups)
}
