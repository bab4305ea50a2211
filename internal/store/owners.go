package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Owner returns the owner of an id, or "" if it has none.
func (s *Store) Owner(ctx context.Context, id string) (owner string, err error) {
	err = s.readOnly(ctx, func(ctx context.Context, c conn) error {
		return c.row(ctx, `SELECT substr(owner, 1, 256) FROM owners WHERE id = $1`, id).Scan(&owner)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return owner, err
}

// AddOwners stores the owners of ids. An id that has one keeps it.
func (s *Store) AddOwners(ctx context.Context, owners map[string]string, now time.Time) error {
	in := insert{head: `INSERT INTO owners (id, owner, created) VALUES `, tail: ` ON CONFLICT (id) DO NOTHING`}
	for id, owner := range owners {
		in.rows = append(in.rows, []any{bound(id), bound(owner), nanos(now)})
	}
	return s.readWrite(ctx, in.run)
}

// ExpireOwners removes the owners that were stored before a time.
func (s *Store) ExpireOwners(ctx context.Context, before time.Time) error {
	return s.readWrite(ctx, func(ctx context.Context, c conn) error {
		return c.exec(ctx, `DELETE FROM owners WHERE created < $1`, nanos(before))
	})
}
