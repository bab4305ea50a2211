package store

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
)

// Tenant is an organisation, or a team of one. The organisation "default" always exists.
type Tenant struct {
	Org     string
	Team    string // unique in the organisation; empty: the tenant is the organisation
	Name    string
	Blocked bool // its keys are rejected
	Limit   quota.Limit
	Created time.Time
}

// Account returns the name of the tenant's account in the ledger: org:ORG or team:ORG/TEAM.
func (t *Tenant) Account() string {
	if t.Team == "" {
		return "org:" + t.Org
	}
	return "team:" + t.Org + "/" + t.Team
}

// ErrNotFound reports that an organisation or team does not exist.
var ErrNotFound = Error("there is no such organisation or team")

const tenantColumns = `name, blocked, created, limit_requests, limit_tokens, limit_concurrency, budget, budget_window, budgets`

// CreateTenant adds an organisation, or a team to an organisation. It takes a revision, like every
// change, though no key has changed.
func (s *Store) CreateTenant(ctx context.Context, t Tenant) error {
	kind, id, insert, args := "organisation", t.Org, `INSERT INTO orgs (id, `, []any{t.Org}
	if t.Team != "" {
		kind, id, insert, args = "team", t.Team, `INSERT INTO teams (org, id, `, []any{t.Org, t.Team}
	}
	if err := checkID(kind, id); err != nil {
		return err
	}
	if err := checkLimit(t.Limit); err != nil {
		return err
	}
	if !db.Storable(t.Org) {
		return ErrNoOrg
	}
	args = append(args, bounds.Text(t.Name), t.Blocked, nanos(t.Created))
	args = append(args, limitArgs(t.Limit)...)
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		revision, _, err := nextRevision(ctx, c, 0)
		if err != nil {
			return err
		}
		err = c.Exec(ctx, insert+tenantColumns+`, base, top) VALUES `+db.Placeholders(1, len(args)+2), append(args[:len(args):len(args)], revision, revision)...)
		switch {
		case err != nil && s.db.Is(err, db.Duplicate):
			return ErrExists
		case err != nil && s.db.Is(err, db.MissingReference):
			return ErrNoOrg
		}
		return err
	})
}

// UpdateTenant lets edit change the name and the limit of an organisation or a team, and whether it is
// blocked. edit may be called again after a conflict with another transaction.
func (s *Store) UpdateTenant(ctx context.Context, org, team string, edit func(*Tenant) error) (t Tenant, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		revision, _, err := nextRevision(ctx, c, 0)
		if err != nil {
			return err
		}
		old, err := readTenant(ctx, c, org, team)
		if err != nil {
			return err
		}
		t = old
		if err := edit(&t); err != nil {
			return err
		}
		t.Org, t.Team, t.Created, t.Name = org, team, old.Created, bounds.Text(t.Name)
		if err := checkLimit(t.Limit); err != nil {
			return err
		}
		w := db.Where{Args: append([]any{revision, revision, t.Name, t.Blocked}, limitArgs(t.Limit)...)}
		return c.Exec(ctx, `UPDATE `+selectTenant(&w, org, team)+` SET base = $1, top = $2, name = $3, blocked = $4,
			limit_requests = $5, limit_tokens = $6, limit_concurrency = $7, budget = $8, budget_window = $9, budgets = $10`+w.Text(), w.Args...)
	})
	return t, err
}

// selectTenant adds the conditions for one tenant and returns its table.
func selectTenant(w *db.Where, org, team string) (table string) {
	if team == "" {
		w.Add("id = ", org)
		return "orgs"
	}
	w.Add("org = ", org)
	w.Add("id = ", team)
	return "teams"
}

// Tenant returns an organisation, or a team if one is named. The error of a missing one is ErrNotFound.
func (s *Store) Tenant(ctx context.Context, org, team string) (t Tenant, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		t, err = readTenant(ctx, c, org, team)
		return err
	})
	return t, err
}

func readTenant(ctx context.Context, c db.Conn, org, team string) (Tenant, error) {
	var w db.Where
	list, err := readTenants(ctx, c, selectTenant(&w, org, team), w.Text(), w.Args...)
	switch {
	case err != nil:
		return Tenant{}, err
	case len(list) == 0:
		return Tenant{}, ErrNotFound
	}
	return list[0], nil
}

// Orgs returns organisations ordered by id, starting after the given id.
func (s *Store) Orgs(ctx context.Context, after string, limit int) ([]Tenant, error) {
	return s.tenants(ctx, "orgs", ` WHERE id > $1 ORDER BY id LIMIT $2`, after, clampLimit(limit))
}

// Teams returns the teams of an organisation ordered by id, starting after the given id.
func (s *Store) Teams(ctx context.Context, org, after string, limit int) ([]Tenant, error) {
	return s.tenants(ctx, "teams", ` WHERE org = $1 AND id > $2 ORDER BY id LIMIT $3`, org, after, clampLimit(limit))
}

func (s *Store) tenants(ctx context.Context, table, which string, args ...any) (list []Tenant, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list, err = readTenants(ctx, c, table, which, args...)
		return err
	})
	return list, err
}

func readTenants(ctx context.Context, c db.Conn, table, which string, args ...any) (list []Tenant, err error) {
	id := map[string]string{"orgs": `id, ''`, "teams": `org, id`}[table]
	err = c.Rows(ctx, func(row db.Scan) error {
		var t Tenant
		var created int64
		err := row(append([]any{&t.Org, &t.Team, &t.Name, &t.Blocked, &created}, limitDest(&t.Limit)...)...)
		t.Created = fromNanos(created)
		list = append(list, t)
		return err
	}, `SELECT `+id+`, `+tenantColumns+` FROM `+table+which, args...)
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
