package store

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Account is a person's account that a SCIM user has removed or restored.
type Account struct {
	ID, Org string
	Removed bool
}

// Provision changes a SCIM user, whose id do returns, and removes or restores the accounts of its
// person in the same transaction. An empty id concerns no account. do may be called several times.
func (s *Store) Provision(ctx context.Context, do func(context.Context, db.Conn) (user string, err error)) (changed []Account, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		changed = nil
		revision, _, err := nextRevision(ctx, c, 0) // SavePerson waits
		if err == nil {
			err = markGroups(ctx, c, revision)
		}
		if err != nil {
			return err
		}
		user, err := do(ctx, c)
		if err != nil || user == "" {
			return err
		}
		changed, err = changeAccounts(ctx, c, user)
		return err
	})
	if err != nil && s.db.Is(err, db.Duplicate) {
		return nil, ErrExists
	}
	return changed, err
}

// changeAccounts removes or restores the accounts of a SCIM user.
func changeAccounts(ctx context.Context, c db.Conn, user string) (changed []Account, err error) {
	type account struct {
		id, org, name string
		required      bool
		removed       int64
	}
	var all []account
	err = c.Rows(ctx, func(row db.Scan) error {
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
		if err := c.Exec(ctx, `UPDATE keys SET revision = $2, removed = $3 WHERE id = $1`, a.id, revision, nanos(at)); err != nil {
			return nil, err
		}
		changed = append(changed, Account{a.id, a.org, removed})
	}
	return changed, nil
}

// isRemoved reports whether the SCIM users of a name keep the person out of an organisation: one of
// them is inactive or deleted, or there must be one and there is none.
func isRemoved(ctx context.Context, c db.Conn, name, org string, required bool) (removed bool, err error) {
	known := false
	err = c.Rows(ctx, func(row db.Scan) error {
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
func saveSCIM(ctx context.Context, c db.Conn, r access.Record) error {
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
	return c.Exec(ctx, `UPDATE keys SET scim_name = $2, scim_required = $3, removed = $4 WHERE id = $1`, r.ID, r.SCIMName, r.SCIMRequired, nanos(at))
}
