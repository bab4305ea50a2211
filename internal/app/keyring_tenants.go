package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/similar"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

// Limit holds the limits of a key, a team or an organisation.
type Limit = quota.Limit

// Budget is a budget of one.
type Budget = budget.Budget

// Tenant is an organisation, or a team of one.
type Tenant struct {
	Org     string
	Team    string // empty: the organisation itself
	Name    string
	Blocked bool
	Limit   Limit
	Created time.Time
}

// account returns the name of the tenant's account in the ledger.
func (t Tenant) account() string {
	if t.Team == "" {
		return "org:" + t.Org
	}
	return "team:" + t.Org + "/" + t.Team
}

// Orgs returns all organisations.
func (k *Keyring) Orgs(ctx context.Context) ([]Tenant, error) {
	var all []Tenant
	for after := ""; ; after = all[len(all)-1].Org {
		page, err := k.store.Orgs(ctx, after, store.MaxPerPage)
		if err != nil || len(page) == 0 {
			return all, err
		}
		for _, o := range page {
			all = append(all, ofOrg(o))
		}
	}
}

// Teams returns the teams of an organisation, or of all.
func (k *Keyring) Teams(ctx context.Context, org string) ([]Tenant, error) {
	orgs := []Tenant{{Org: org}}
	if org == "" {
		var err error
		if orgs, err = k.Orgs(ctx); err != nil {
			return nil, err
		}
	}
	var all []Tenant
	for _, o := range orgs {
		for after := ""; ; after = all[len(all)-1].Team {
			page, err := k.store.Teams(ctx, o.Org, after, store.MaxPerPage)
			if err != nil {
				return nil, err
			}
			if len(page) == 0 {
				break
			}
			for _, t := range page {
				all = append(all, ofTeam(t))
			}
		}
	}
	return all, nil
}

func ofOrg(o store.Org) Tenant {
	return Tenant{Org: o.ID, Name: o.Name, Blocked: o.Blocked, Limit: o.Limit, Created: o.Created}
}

func ofTeam(t store.Team) Tenant {
	return Tenant{Org: t.Org, Team: t.ID, Name: t.Name, Blocked: t.Blocked, Limit: t.Limit, Created: t.Created}
}

// CreateTenant adds an organisation, or a team with its organisation.
func (k *Keyring) CreateTenant(ctx context.Context, t Tenant) error {
	if t.Team != "" {
		if err := k.ensure(ctx, t.Org, ""); err != nil {
			return err
		}
	}
	if err := k.addTenant(ctx, t); err != nil {
		if errors.Is(err, store.ErrExists) {
			return fmt.Errorf("%s exists; change it with 'update'", t.account())
		}
		return err
	}
	return k.note(ctx, "create-"+t.kind(), t.account())
}

// kind returns what the tenant is.
func (t Tenant) kind() string {
	if t.Team == "" {
		return "org"
	}
	return "team"
}

func (k *Keyring) addTenant(ctx context.Context, t Tenant) error {
	if t.Team == "" {
		return k.store.CreateOrg(ctx, store.Org{ID: t.Org, Name: t.Name, Blocked: t.Blocked, Limit: t.Limit, Created: time.Now()})
	}
	return k.store.CreateTeam(ctx, store.Team{Org: t.Org, ID: t.Team, Name: t.Name, Blocked: t.Blocked, Limit: t.Limit, Created: time.Now()})
}

// ensureTenant adds an organisation or a team if it does not exist.
func (k *Keyring) ensureTenant(ctx context.Context, t Tenant) error {
	if _, err := k.Tenant(ctx, t.Org, t.Team); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := k.addTenant(ctx, t); !errors.Is(err, store.ErrExists) {
		return err
	}
	return nil
}

// Tenant returns an organisation, or a team of it.
func (k *Keyring) Tenant(ctx context.Context, org, team string) (Tenant, error) {
	if team == "" {
		o, err := k.store.Org(ctx, org)
		return ofOrg(o), err
	}
	t, err := k.store.Team(ctx, org, team)
	return ofTeam(t), err
}

// UpdateTenant changes the name, the limits and the block of an organisation or a team.
func (k *Keyring) UpdateTenant(ctx context.Context, org, team string, edit func(*Tenant) error) (t Tenant, err error) {
	if team == "" {
		var o store.Org
		o, err = k.store.UpdateOrg(ctx, org, func(o *store.Org) error {
			t := ofOrg(*o)
			err := edit(&t)
			o.Name, o.Blocked, o.Limit = t.Name, t.Blocked, t.Limit
			return err
		})
		t = ofOrg(o)
	} else {
		var s store.Team
		s, err = k.store.UpdateTeam(ctx, org, team, func(s *store.Team) error {
			t := ofTeam(*s)
			err := edit(&t)
			s.Name, s.Blocked, s.Limit = t.Name, t.Blocked, t.Limit
			return err
		})
		t = ofTeam(s)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return t, fmt.Errorf("there is no %s; 'isogloss keys %ss' shows them", Tenant{Org: org, Team: team}.account(), Tenant{Team: team}.kind())
	case err != nil:
		return t, err
	}
	return t, k.note(ctx, "update-"+t.kind(), t.account())
}

// Spent returns what a key has spent in the window of each of its budgets, or in total if it has
// none. Requests of the last second or so may be missing: gateways write them a moment later.
func (k *Keyring) Spent(ctx context.Context, key string, limit Limit) ([]usage.Money, error) {
	return k.spent(ctx, "key:"+key, limit)
}

// TenantSpent returns what an organisation or a team has spent like Spent.
func (k *Keyring) TenantSpent(ctx context.Context, t Tenant) ([]usage.Money, error) {
	return k.spent(ctx, t.account(), t.Limit)
}

func (k *Keyring) spent(ctx context.Context, account string, limit Limit) ([]usage.Money, error) {
	var since []time.Time
	for _, b := range limit.Budgets() {
		from := time.Unix(0, 0)
		if b.Window > 0 {
			from = time.Now().Add(-b.Window)
		}
		since = append(since, from)
	}
	if since == nil {
		since = []time.Time{time.Unix(0, 0)}
	}
	spent, err := k.store.Spent(ctx, account, since...)
	return spent.Since, err
}

// UsageQuery selects usage. An empty field selects all. From is inclusive, To exclusive.
type UsageQuery struct {
	From, To                      time.Time
	Org, Team, Key, Model, Target string
	User                          string
	Tag                           usage.Tag
	GroupBy                       []string // hour, day, org, team, key, model, target, and user or tag:KEY
}

// UsageSum is the usage of a group.
type UsageSum = store.Sum

// Usage sums the ledger.
func (k *Keyring) Usage(ctx context.Context, q UsageQuery) ([]UsageSum, error) {
	groups := make([]store.Group, len(q.GroupBy))
	for i, g := range q.GroupBy {
		groups[i] = store.Group(g)
	}
	return k.store.Usage(ctx, store.UsageQuery{From: q.From, To: q.To, Org: q.Org, Team: q.Team, Key: q.Key, Model: q.Model, Target: q.Target, User: q.User, Tag: q.Tag, GroupBy: groups})
}

// Warnings returns what is probably a mistake in a new or changed key: models that the
// configuration does not have, and a name that another key has.
func (k *Keyring) Warnings(ctx context.Context, id, name string, models []string) ([]string, error) {
	warnings := k.unknownModels(models)
	others, err := k.named(ctx, name)
	for _, r := range others {
		if r.ID != id && r.Revoked.IsZero() {
			return append(warnings, fmt.Sprintf("the key %s has the name %q too; commands that take a name need the id then", r.ID, name)), err
		}
	}
	return warnings, err
}

// unknownModels returns a warning for each model that no request could use. With discovery
// every name may be that of a worker.
func (k *Keyring) unknownModels(models []string) []string {
	if k.cfg.Discover.On() {
		return nil
	}
	routes := route.New(newRoutes(k.cfg.Models, pools{}))
	known := make([]string, len(k.cfg.Models))
	for i, m := range k.cfg.Models {
		known[i] = m.Name
	}
	var warnings []string
	for _, m := range models {
		if coversAny(routes, m) {
			continue
		}
		text := fmt.Sprintf("the configuration has no model %q", m)
		if near := similar.Name(m, known); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
		}
		warnings = append(warnings, text)
	}
	return warnings
}

// coversAny reports whether a name or pattern of a key's models covers a model.
func coversAny(routes *route.Table, scope string) bool {
	prefix, open := strings.CutSuffix(scope, "*")
	if !open {
		_, ok := routes.Find(scope)
		return ok
	}
	for _, r := range routes.Routes() {
		begin, pattern := strings.CutSuffix(r.Name, "*")
		if strings.HasPrefix(r.Name, prefix) || pattern && strings.HasPrefix(prefix, begin) {
			return true
		}
	}
	return false
}
