// Package keyuse has the queries for the names of keys and for what they have spent.
package keyuse

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Use is how much a key was used.
type Use struct {
	Spent usage.Money // since the time of the question
	Last  time.Time   // hour of the last request; zero: none
}

// Read returns the use of the keys with the given ids. Keys that do not exist are left out. The sums by account have
// both, also where a log has the rows.
func Read(ctx context.Context, c db.Conn, ids []string, since time.Time) (map[string]Use, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	uses := make(map[string]Use, len(ids))
	err = c.Rows(ctx, func(row db.Scan) error {
		var id string
		var spent int64
		var hour sql.NullInt64
		if err := row(&id, &spent, &hour); err != nil {
			return err
		}
		u := Use{Spent: usage.Money(spent)}
		if hour.Valid {
			u.Last = db.FromNanos(hour.Int64 * int64(time.Hour))
		}
		uses[id] = u
		return nil
	}, `SELECT k.id,
		CAST(COALESCE((SELECT sum(cost) FROM spent WHERE account = 'key:' || k.id AND hour >= $2), 0) AS BIGINT),
		(SELECT max(hour) FROM spent WHERE account = 'key:' || k.id)
		FROM keys k WHERE k.id IN (`+c.List()+`)`, string(list), db.Nanos(since)/int64(time.Hour))
	return uses, err
}

// Name is a key with its name.
type Name struct {
	ID, Name string
	Revoked  bool
}

// Names returns the names of keys by their ids. Keys that do not exist are left out.
func Names(ctx context.Context, c db.Conn, ids []string) (map[string]string, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(ids))
	err = c.Rows(ctx, func(row db.Scan) error {
		var id, name string
		err := row(&id, &name)
		names[id] = name
		return err
	}, `SELECT k.id, substr(k.name, 1, 256) FROM keys k WHERE k.id IN (`+c.List()+`)`, string(list))
	return names, err
}

// Bounds of what Find returns.
const (
	maxFound = 1000
	maxNames = 10_000
)

// Find returns the key with an id, or else the keys with a name. If there are none, it returns names of keys that the
// filter selects. filter returns the conditions of the filter.
func Find(ctx context.Context, c db.Conn, filter func() db.Where, idOrName string) (found []Name, others []string, err error) {
	for _, column := range []string{"k.id = ", "k.name = "} {
		w := filter()
		w.Add(column, idOrName)
		if err := read(ctx, c, &w, maxFound, func(k Name) { found = append(found, k) }); err != nil || len(found) > 0 {
			return found, nil, err
		}
	}
	w := filter()
	err = read(ctx, c, &w, maxNames, func(k Name) { others = append(others, k.Name) })
	return nil, others, err
}

func read(ctx context.Context, c db.Conn, w *db.Where, limit int64, each func(Name)) error {
	return c.Rows(ctx, func(row db.Scan) error {
		var k Name
		err := row(&k.ID, &k.Name, &k.Revoked)
		each(k)
		return err
	}, `SELECT substr(k.id, 1, 256), substr(k.name, 1, 256), k.revoked <> 0 FROM keys k`+w.Text()+` ORDER BY k.id LIMIT `+w.Arg(limit), w.Args...)
}
