package store

import (
	"context"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// touched lists what has got a revision since $1: keys that were changed themselves,
// and keys whose team or organisation was. No revision is in it twice, because a
// change of a team takes one for each key (see span).
const touched = `
	SELECT * FROM (SELECT revision AS rev, id FROM keys WHERE revision > $1 ORDER BY revision LIMIT $2) a
	UNION ALL
	SELECT * FROM (SELECT t.base + k.seq AS rev, k.id AS id FROM teams t JOIN keys k ON k.org = t.org AND k.team = t.id
		WHERE t.top > $1 AND k.seq > $1 - t.base AND k.seq <= t.top - t.base ORDER BY 1 LIMIT $2) b
	UNION ALL
	SELECT * FROM (SELECT o.base + k.seq AS rev, k.id AS id FROM orgs o JOIN keys k ON k.org = o.id
		WHERE o.top > $1 AND k.seq > $1 - o.base AND k.seq <= o.top - o.base ORDER BY 1 LIMIT $2) c`

const changes = `SELECT ` + recordColumns + `, x.rev FROM (SELECT rev, id FROM (` + touched + `) u ORDER BY rev LIMIT $2) x
	JOIN keys k ON k.id = x.id` + recordJoins + `ORDER BY x.rev`

// Changes returns keys that have changed since a revision, or whose team or
// organisation has, in the order of their revisions, at most limit of them. The next
// call starts at next; there is no more for now when no records come back.
//
// A store that was restored from a backup, or emptied, is at an earlier revision than
// the one that is asked for. Then next is smaller than since, and the records are
// those from the beginning.
func (s *Store) Changes(ctx context.Context, since int64, limit int) (records []access.Record, next int64, err error) {
	err = s.look(ctx, func(ctx context.Context, c conn) error {
		var last int64
		if err := c.row(ctx, `SELECT revision FROM revision WHERE one = 1`).Scan(&last); err != nil {
			return err
		}
		next = since
		if last < since {
			next = 0
		}
		for next < last && len(records) == 0 {
			var p page
			if p, err = readPage(ctx, c, next, most(limit)); err != nil {
				return err
			}
			records, next = p.records, p.end
			if p.whole { // nothing was left out up to where the store was when it was asked
				next = max(next, last)
			}
		}
		return nil
	})
	return records, next, err
}

// page is a part of the list of changes.
type page struct {
	records []access.Record
	end     int64 // the last revision that it covers
	whole   bool  // there was no more
}

// readPage leaves out records that come again later in the list: a key that was
// changed, and its team after it. So a page may be empty and not the last.
func readPage(ctx context.Context, c conn, since, limit int64) (page, error) {
	p, n := page{end: since}, int64(0)
	err := c.rows(ctx, func(row scan) error {
		r, err := scanRecord(row, &p.end)
		if err == nil && r.Revision == p.end {
			p.records = append(p.records, r)
		}
		n++
		return err
	}, changes, since, limit)
	p.whole = n < limit
	return p, err
}
