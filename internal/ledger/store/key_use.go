package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// KeyUse is how much a key was used.
type KeyUse struct {
	Spent usage.Money // since the time of the question
	Last  time.Time   // hour of the last request; zero: none
}

// KeyUses returns the use of the keys with the given ids. Keys that do not exist are left out. The sums by account have
// both, also where a log has the rows.
func (s *Store) KeyUses(ctx context.Context, ids []string, since time.Time) (uses map[string]KeyUse, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		uses = make(map[string]KeyUse, len(ids))
		return c.Rows(ctx, func(row db.Scan) error {
			var id string
			var spent int64
			var hour sql.NullInt64
			if err := row(&id, &spent, &hour); err != nil {
				return err
			}
			u := KeyUse{Spent: usage.Money(spent)}
			if hour.Valid {
				u.Last = fromNanos(hour.Int64 * int64(time.Hour))
			}
			uses[id] = u
			return nil
		}, `SELECT k.id,
			CAST(COALESCE((SELECT sum(cost) FROM spent WHERE account = 'key:' || k.id AND hour >= $2), 0) AS BIGINT),
			(SELECT max(hour) FROM spent WHERE account = 'key:' || k.id)
			FROM keys k WHERE k.id IN (`+c.List()+`)`, string(list), hourOf(since))
	})
	return uses, err
}

// KeyName is a key with its name.
type KeyName struct {
	ID, Name string
	Revoked  bool
}

// KeyNames returns the names of keys by their ids. Keys that do not exist are left out.
func (s *Store) KeyNames(ctx context.Context, ids []string) (names map[string]string, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		names = make(map[string]string, len(ids))
		return c.Rows(ctx, func(row db.Scan) error {
			var id, name string
			err := row(&id, &name)
			names[id] = name
			return err
		}, `SELECT k.id, substr(k.name, 1, 256) FROM keys k WHERE k.id IN (`+c.List()+`)`, string(list))
	})
	return names, err
}

// maxNames is the maximum number of names that FindKeys returns.
const maxNames = 10_000

// FindKeys returns the key with an id, or else the keys with a name. If there are none, it returns names of keys that
// the filter selects.
func (s *Store) FindKeys(ctx context.Context, f KeyFilter, idOrName string) (found []KeyName, others []string, err error) {
	if !db.Storable(idOrName) {
		return nil, nil, nil
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		found, others = nil, nil
		for _, column := range []string{"k.id = ", "k.name = "} {
			w := f.where()
			w.Add(column, idOrName)
			if err := readNames(ctx, c, &w, MaxPerPage, func(k KeyName) { found = append(found, k) }); err != nil || len(found) > 0 {
				return err
			}
		}
		w := f.where()
		return readNames(ctx, c, &w, maxNames, func(k KeyName) { others = append(others, k.Name) })
	})
	return found, others, err
}

func readNames(ctx context.Context, c db.Conn, w *db.Where, limit int64, each func(KeyName)) error {
	return c.Rows(ctx, func(row db.Scan) error {
		var k KeyName
		err := row(&k.ID, &k.Name, &k.Revoked)
		each(k)
		return err
	}, `SELECT substr(k.id, 1, 256), substr(k.name, 1, 256), k.revoked <> 0 FROM keys k`+w.Text()+` ORDER BY k.id LIMIT `+w.Arg(limit), w.Args...)
}
