package store

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
)

// Org is an organisation. The organisation "default" always exists.
type Org struct {
	ID      string
	Name    string
	Blocked bool // its keys are rejected
	Limit   quota.Limit
	Created time.Time
}

// Team is a part of an organisation.
type Team struct {
	Org     string
	ID      string // unique in the organisation
	Name    string
	Blocked bool // its keys are rejected
	Limit   quota.Limit
	Created time.Time
}

// ErrNotFound reports that an organisation or team does not exist.
var ErrNotFound = Error("there is no such organisation or team")

const tenantColumns = `name, blocked, created, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, budgets`

// CreateOrg adds an organisation.
func (s *Store) CreateOrg(ctx context.Context, o Org) error {
	if err := checkID("organisation", o.ID); err != nil {
		return err
	}
	if err := checkLimit(o.Limit); err != nil {
		return err
	}
	args := append([]any{o.ID, bound(o.Name), o.Blocked, nanos(o.Created)}, limitArgs(o.Limit)...)
	return s.create(ctx, `INSERT INTO orgs (id, `+tenantColumns+`, base, top) VALUES `, args)
}

// CreateTeam adds a team to an organisation.
func (s *Store) CreateTeam(ctx context.Context, t Team) error {
	if err := checkID("team", t.ID); err != nil {
		return err
	}
	if err := checkLimit(t.Limit); err != nil {
		return err
	}
	if !db.Storable(t.Org) {
		return ErrNoOrg
	}
	args := append([]any{t.Org, t.ID, bound(t.Name), t.Blocked, nanos(t.Created)}, limitArgs(t.Limit)...)
	return s.create(ctx, `INSERT INTO teams (org, id, `+tenantColumns+`, base, top) VALUES `, args)
}

// create takes a revision, like every change, though no key has changed.
func (s *Store) create(ctx context.Context, insert string, args []any) error {
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		revision, _, err := nextRevision(ctx, c, 0)
		if err != nil {
			return err
		}
		err = c.Exec(ctx, insert+db.Placeholders(1, len(args)+2), append(args[:len(args):len(args)], revision, revision)...)
		switch {
		case err != nil && s.db.Is(err, db.Duplicate):
			return ErrExists
		case err != nil && s.db.Is(err, db.MissingReference):
			return ErrNoOrg
		}
		return err
	})
}

// UpdateOrg lets edit change an organisation's name, limit and whether it is blocked. edit may be
// called again after a conflict with another transaction.
func (s *Store) UpdateOrg(ctx context.Context, id string, edit func(*Org) error) (o Org, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		revision, _, err := nextRevision(ctx, c, 0)
		if err != nil {
			return err
		}
		list, err := orgs(ctx, c, ` WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return ErrNotFound
		}
		o = list[0]
		if err := edit(&o); err != nil {
			return err
		}
		o.ID, o.Created, o.Name = id, list[0].Created, bound(o.Name)
		if err := checkLimit(o.Limit); err != nil {
			return err
		}
		return c.Exec(ctx, `UPDATE orgs SET base = $2, top = $3, name = $4, blocked = $5,
			limit_requests = $6, limit_tokens = $7, limit_concurrency = $8, budget = $9, budget_window = $10, budgets = $11 WHERE id = $1`,
			append([]any{id, revision, revision, o.Name, o.Blocked}, limitArgs(o.Limit)...)...)
	})
	return o, err
}

// UpdateTeam changes a team like UpdateOrg an organisation.
func (s *Store) UpdateTeam(ctx context.Context, org, id string, edit func(*Team) error) (t Team, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		revision, _, err := nextRevision(ctx, c, 0)
		if err != nil {
			return err
		}
		list, err := teams(ctx, c, ` WHERE org = $1 AND id = $2`, org, id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return ErrNotFound
		}
		t = list[0]
		if err := edit(&t); err != nil {
			return err
		}
		t.Org, t.ID, t.Created, t.Name = org, id, list[0].Created, bound(t.Name)
		if err := checkLimit(t.Limit); err != nil {
			return err
		}
		return c.Exec(ctx, `UPDATE teams SET base = $3, top = $4, name = $5, blocked = $6,
			limit_requests = $7, limit_tokens = $8, limit_concurrency = $9, budget = $10, budget_window = $11, budgets = $12 WHERE org = $1 AND id = $2`,
			append([]any{org, id, revision, revision, t.Name, t.Blocked}, limitArgs(t.Limit)...)...)
	})
	return t, err
}

// Org returns an organisation, or ErrNotFound.
func (s *Store) Org(ctx context.Context, id string) (o Org, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list, err := orgs(ctx, c, ` WHERE id = $1`, id)
		if err == nil && len(list) == 0 {
			err = ErrNotFound
		}
		if err == nil {
			o = list[0]
		}
		return err
	})
	return o, err
}

// Team returns a team, or ErrNotFound.
func (s *Store) Team(ctx context.Context, org, id string) (t Team, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list, err := teams(ctx, c, ` WHERE org = $1 AND id = $2`, org, id)
		if err == nil && len(list) == 0 {
			err = ErrNotFound
		}
		if err == nil {
			t = list[0]
		}
		return err
	})
	return t, err
}

// Orgs returns organisations ordered by id, starting after the given id.
func (s *Store) Orgs(ctx context.Context, after string, limit int) (list []Org, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list, err = orgs(ctx, c, ` WHERE id > $1 ORDER BY id LIMIT $2`, after, clampLimit(limit))
		return err
	})
	return list, err
}

// Teams returns the teams of an organisation ordered by id, starting after the given id.
func (s *Store) Teams(ctx context.Context, org, after string, limit int) (list []Team, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list, err = teams(ctx, c, ` WHERE org = $1 AND id > $2 ORDER BY id LIMIT $3`, org, after, clampLimit(limit))
		return err
	})
	return list, err
}

func orgs(ctx context.Context, c db.Conn, which string, args ...any) (list []Org, err error) {
	err = c.Rows(ctx, func(row db.Scan) error {
		var o Org
		var created int64
		err := row(append([]any{&o.ID, &o.Name, &o.Blocked, &created}, limitDest(&o.Limit)...)...)
		o.Created = fromNanos(created)
		list = append(list, o)
		return err
	}, `SELECT id, `+tenantColumns+` FROM orgs`+which, args...)
	return list, err
}

func teams(ctx context.Context, c db.Conn, which string, args ...any) (list []Team, err error) {
	err = c.Rows(ctx, func(row db.Scan) error {
		var t Team
		var created int64
		err := row(append([]any{&t.Org, &t.ID, &t.Name, &t.Blocked, &created}, limitDest(&t.Limit)...)...)
		t.Created = fromNanos(created)
		list = append(list, t)
		return err
	}, `SELECT org, id, `+tenantColumns+` FROM teams`+which, args...)
	return list, err
}

func checkLimit(l quota.Limit) error {
	if min(l.Requests, l.Tokens, l.Concurrency, int64(l.Budget), int64(l.Window)) < 0 {
		return Error("a limit cannot be negative; 0 is no limit")
	}
	if _, err := l.More.Budgets(); err != nil {
		return Error(err.Error())
	}
	return nil
}
