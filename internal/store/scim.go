package store

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// Conn runs queries of a package that has tables of its own in the store. Placeholders are $1, $2, ….
type Conn struct{ c conn }

// Exec runs a statement.
func (c Conn) Exec(ctx context.Context, query string, args ...any) error {
	return c.c.exec(ctx, query, args...)
}

// Row returns the scan function of the first row. It returns sql.ErrNoRows if there is none.
func (c Conn) Row(ctx context.Context, query string, args ...any) func(dest ...any) error {
	return c.c.row(ctx, query, args...)
}

// Rows calls each for every row.
func (c Conn) Rows(ctx context.Context, each func(scan func(dest ...any) error) error, query string, args ...any) error {
	return c.c.rows(ctx, func(row scan) error { return each(row) }, query, args...)
}

// List returns a query for the texts of a JSON array, which is the first argument.
func (c Conn) List() string { return c.c.kind.list }

// Read runs queries. do may be called several times.
func (s *Store) Read(ctx context.Context, do func(context.Context, Conn) error) error {
	return s.readOnly(ctx, func(ctx context.Context, c conn) error { return do(ctx, Conn{c}) })
}

// Account is a person's account that a SCIM user has removed or restored.
type Account struct {
	ID, Org string
	Removed bool
}

// Provision changes a SCIM user, whose id do returns, and removes or restores the accounts of its
// person in the same transaction. An empty id concerns no account. do may be called several times.
func (s *Store) Provision(ctx context.Context, do func(context.Context, Conn) (user string, err error)) (changed []Account, err error) {
	err = s.readWrite(ctx, func(ctx context.Context, c conn) error {
		changed = nil
		if _, _, err := nextRevision(ctx, c, 0); err != nil { // SavePerson waits
			return err
		}
		user, err := do(ctx, Conn{c})
		if err != nil || user == "" {
			return err
		}
		changed, err = changeAccounts(ctx, c, user)
		return err
	})
	if err != nil && s.kind.is(err, duplicate) {
		return nil, ErrExists
	}
	return changed, err
}

// changeAccounts removes or restores the accounts of a SCIM user.
func changeAccounts(ctx context.Context, c conn, user string) (changed []Account, err error) {
	type account struct {
		id, org, name string
		required      bool
		removed       int64
	}
	var all []account
	err = c.rows(ctx, func(row scan) error {
		var a account
		err := row(&a.id, &a.org, &a.name, &a.required, &a.removed)
		all = append(all, a)
		return err
	}, `SELECT k.id, k.org, k.scim_name, k.scim_required, k.removed FROM scim_names n JOIN keys k ON k.scim_name = n.name AND n.org IN ('', k.org)
		WHERE n.user_id = $1 AND k.scim_name <> ''`, user)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		removed, err := isRemoved(ctx, c, a.name, a.org, a.required)
		if err != nil {
			return nil, err
		}
		if removed == (a.removed != 0) {
			continue
		}
		revision, _, err := nextRevision(ctx, c, 0)
		if err != nil {
			return nil, err
		}
		var at time.Time
		if removed {
			at = time.Now()
		}
		if err := c.exec(ctx, `UPDATE keys SET revision = $2, removed = $3 WHERE id = $1`, a.id, revision, nanos(at)); err != nil {
			return nil, err
		}
		changed = append(changed, Account{a.id, a.org, removed})
	}
	return changed, nil
}

// isRemoved reports whether the SCIM users of a name keep the person out of an organisation: one of
// them is inactive or deleted, or there must be one and there is none.
func isRemoved(ctx context.Context, c conn, name, org string, required bool) (removed bool, err error) {
	known := false
	err = c.rows(ctx, func(row scan) error {
		var active bool
		var deleted int64
		err := row(&active, &deleted)
		known, removed = true, removed || !active || deleted != 0
		return err
	}, `SELECT u.active, u.deleted FROM scim_names n JOIN scim_users u ON u.id = n.user_id WHERE n.name = $1 AND n.name <> '' AND n.org IN ('', $2)`, name, org)
	return removed || required && !known, err
}

// saveSCIM stores the SCIM name of a person's account, and whether the account is removed. The
// caller has taken a revision, so that no user changes meanwhile.
func saveSCIM(ctx context.Context, c conn, r access.Record) error {
	if !access.IsPerson(r.ID) {
		return nil
	}
	removed, err := isRemoved(ctx, c, r.SCIMName, r.Org, r.SCIMRequired)
	if err != nil {
		return err
	}
	var at time.Time
	switch {
	case removed && r.Removed.IsZero():
		at = time.Now()
	case removed:
		at = r.Removed
	}
	return c.exec(ctx, `UPDATE keys SET scim_name = $2, scim_required = $3, removed = $4 WHERE id = $1`, r.ID, r.SCIMName, r.SCIMRequired, nanos(at))
}
