package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

// Owner returns the owner of an id, or "" if it has none.
func (s *Store) Owner(ctx context.Context, id string) (owner string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, `SELECT substr(owner, 1, 256) FROM owners WHERE id = $1`, id)(&owner)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return owner, err
}

// AddOwners stores the owners of ids. An id that has one keeps it.
func (s *Store) AddOwners(ctx context.Context, owners map[string]string, now time.Time) error {
	in := db.Insert{Head: `INSERT INTO owners (id, owner, created) `, Tail: ` ON CONFLICT (id) DO NOTHING`}
	for id, owner := range owners {
		in.Rows = append(in.Rows, []any{bounds.Text(id), bounds.Text(owner), nanos(now)})
	}
	return s.db.Write(ctx, in.Run)
}

// ExpireOwners removes the owners that were stored before a time.
func (s *Store) ExpireOwners(ctx context.Context, before time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Exec(ctx, `DELETE FROM owners WHERE created < $1`, nanos(before))
	})
}
