package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

const (
	// maxBehind is how many revisions a gateway may be behind: to read the keys that it knows again
	// is faster then.
	maxBehind = 20_000
	// keptMarks is how many revisions have a mark.
	keptMarks = 100_000
)

// nextRevision takes the next revision, for a change that adds this many keys. Taking it locks out
// concurrent changes.
func nextRevision(ctx context.Context, c db.Conn, newKeys int64) (revision, keys int64, err error) {
	err = c.Row(ctx, `UPDATE revision SET revision = revision + 1, keys = keys + $1 WHERE one = 1 RETURNING revision, keys`, newKeys)(&revision, &keys)
	if err == nil {
		err = c.Exec(ctx, `INSERT INTO marks (revision, mark) VALUES ($1, $2)`, revision, rand.Text())
	}
	if err == nil && revision%1000 == 0 {
		err = c.Exec(ctx, `DELETE FROM marks WHERE revision <= $1`, revision-keptMarks)
	}
	return revision, keys, err
}

// readMark returns the mark of a revision. It is empty if the revision has none.
func readMark(ctx context.Context, c db.Conn, revision int64) (mark string, err error) {
	err = c.Row(ctx, `SELECT substr(mark, 1, 64) FROM marks WHERE revision = $1`, revision)(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return mark, err
}

// Changes returns up to limit keys, and as many teams and organisations, that have changed since a
// cursor. If the store does not continue what the cursor was read from, it returns no changes but
// Reset.
func (s *Store) Changes(ctx context.Context, since access.Cursor, limit int) (out access.Changes, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		out = access.Changes{Next: since}
		last := access.Cursor{}
		var fenced bool
		if err := c.Row(ctx, `SELECT revision, `+c.Fenced()+` FROM revision WHERE one = 1`)(&last.Revision, &fenced); err != nil {
			return err
		}
		if fenced { // it may lack changes that another server has
			return db.ErrFenced
		}
		if last.Mark, err = readMark(ctx, c, last.Revision); err != nil {
			return err
		}
		if last == since {
			return nil
		}
		known, err := readMark(ctx, c, since.Revision)
		if err != nil {
			return err
		}
		if since == (access.Cursor{}) || last.Revision <= since.Revision || last.Revision > since.Revision+maxBehind || known != since.Mark {
			out.Next, out.Reset = last, true
			return nil
		}
		if out.Groups, err = groupsChanged(ctx, c, since.Revision, last.Revision); err != nil {
			return err
		}
		return readChanges(ctx, c, since, last, clampLimit(limit), &out)
	})
	return out, err
}

const tenantChanges = `SELECT substr(org, 1, 256), substr(team, 1, 256), top, blocked, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, substr(budgets, 1, 256) FROM (
	SELECT id AS org, '' AS team, top, blocked, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, budgets FROM orgs WHERE top > $1 AND top <= $2
	UNION ALL
	SELECT org, id AS team, top, blocked, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, budgets FROM teams WHERE top > $1 AND top <= $2) x
	ORDER BY top LIMIT $3`

// readChanges reads a page of the changes after a cursor, up to last.
func readChanges(ctx context.Context, c db.Conn, since, last access.Cursor, limit int64, out *access.Changes) error {
	var at []int64 // the revisions of the keys' own changes
	err := c.Rows(ctx, func(row db.Scan) error {
		var own int64
		r, err := scanRecord(c, row, &own)
		r.Revision = min(r.Revision, last.Revision) // a forged one would hide later changes
		out.Records, at = append(out.Records, r), append(at, own)
		return err
	}, `SELECT `+recordColumns+`, k.revision FROM `+recordTables+` WHERE k.revision > $1 AND k.revision <= $2 ORDER BY k.revision LIMIT $3`, since.Revision, last.Revision, limit)
	if err != nil {
		return err
	}
	err = c.Rows(ctx, func(row db.Scan) error {
		var t access.Tenant
		err := row(append([]any{&t.Org, &t.Team, &t.Revision, &t.Blocked}, limitDest(&t.Limit)...)...)
		if checkLimit(t.Limit) != nil {
			t.Blocked = true
		}
		out.Tenants = append(out.Tenants, t)
		return err
	}, tenantChanges, since.Revision, last.Revision, limit)
	if err != nil {
		return err
	}
	out.Next = last
	if n := len(at); int64(n) == limit {
		out.Next.Revision = at[n-1]
	}
	if n := len(out.Tenants); int64(n) == limit {
		out.Next.Revision = min(out.Next.Revision, out.Tenants[n-1].Revision)
	}
	if out.Next.Revision == last.Revision {
		return nil
	}
	out.More = true
	for len(at) > 0 && at[len(at)-1] > out.Next.Revision {
		at, out.Records = at[:len(at)-1], out.Records[:len(at)-1]
	}
	for n := len(out.Tenants); n > 0 && out.Tenants[n-1].Revision > out.Next.Revision; n-- {
		out.Tenants = out.Tenants[:n-1]
	}
	out.Next.Mark, err = readMark(ctx, c, out.Next.Revision)
	return err
}

// KeysByID returns the keys with the given ids. Those that do not exist are left out.
func (s *Store) KeysByID(ctx context.Context, ids []string) (keys []access.Record, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		keys = nil
		return c.Rows(ctx, func(row db.Scan) error {
			r, err := scanRecord(c, row)
			keys = append(keys, r)
			return err
		}, `SELECT `+recordColumns+` FROM `+recordTables+` WHERE k.id IN (`+c.List()+`)`, string(list))
	})
	return keys, err
}

// KeysAfter returns keys ordered by id, starting after the given id.
func (s *Store) KeysAfter(ctx context.Context, id string, limit int) ([]access.Record, error) {
	return s.Keys(ctx, KeyFilter{}, id, limit)
}
