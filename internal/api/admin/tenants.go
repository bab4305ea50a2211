package admin

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// tenantView is an organisation, or a team of one.
type tenantView struct {
	ID      string    `json:"id"`
	Org     string    `json:"org,omitempty" doc:"Organisation of a team. Absent: it is an organisation itself."`
	Name    string    `json:"name,omitempty"`
	Blocked bool      `json:"blocked" doc:"Its keys are refused."`
	Created time.Time `json:"created,omitzero"`
	Limits  limits    `json:"limits" doc:"For all its keys together."`
}

func viewTenant(t store.Tenant) *tenantView {
	v := tenantView{ID: t.Org, Name: t.Name, Blocked: t.Blocked, Created: t.Created, Limits: viewLimits(t.Limit)}
	if t.Team != "" {
		v.ID, v.Org = t.Team, t.Org
	}
	return &v
}

type orgList struct {
	Orgs []tenantView `json:"orgs"`
	Next string       `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

type teamList struct {
	Teams []tenantView `json:"teams"`
	Next  string       `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

type listOrgsIn struct{ page }

func (s *server) listOrgs(ctx context.Context, c *call, in *listOrgsIn) (*orgList, error) {
	if own := boundTo(c.operator); own != "" {
		o, err := s.tenant(ctx, c, own, "")
		if err != nil {
			return nil, err
		}
		return &orgList{Orgs: []tenantView{*viewTenant(o)}}, nil
	}
	list, err := s.Tenants.Orgs(ctx, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(keyStoreName, err)
	}
	out := new(orgList)
	out.Orgs, out.Next = viewTenants(list, in.Limit)
	return out, nil
}

type listTeamsIn struct {
	orgPath
	page
}

func (s *server) listTeams(ctx context.Context, c *call, in *listTeamsIn) (*teamList, error) {
	if _, err := s.tenant(ctx, c, in.Org, ""); err != nil {
		return nil, err
	}
	list, err := s.Tenants.Teams(ctx, in.Org, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(keyStoreName, err)
	}
	out := new(teamList)
	out.Teams, out.Next = viewTenants(list, in.Limit)
	return out, nil
}

// viewTenants returns a page and the id after which the next one begins.
func viewTenants(list []store.Tenant, limit int) (views []tenantView, next string) {
	for _, t := range list {
		views = append(views, *viewTenant(t))
	}
	if len(list) == limit {
		next = views[len(views)-1].ID
	}
	return views, next
}

// kind returns what the path names, for messages.
func (p *tenantPath) kind() string {
	if p.Team == "" {
		return "organisation"
	}
	return "team"
}

// tenant returns an organisation, or a team of it, that the operator may see.
func (s *server) tenant(ctx context.Context, c *call, org, team string) (store.Tenant, error) {
	p := tenantPath{orgPath{org}, team}
	id := strings.TrimSuffix(org+"/"+team, "/")
	if !c.canSeeOrg(org) {
		return store.Tenant{}, missing(p.kind(), id)
	}
	t, err := s.Tenants.Tenant(ctx, org, team)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return t, missing(p.kind(), id)
	case err != nil:
		return t, unavailable(keyStoreName, err)
	}
	return t, nil
}

func (s *server) getTenant(ctx context.Context, c *call, in *tenantPath) (*tenantView, error) {
	t, err := s.tenant(ctx, c, in.Org, in.Team)
	if err != nil {
		return nil, err
	}
	return viewTenant(t), nil
}

func (s *server) getTenantLimits(ctx context.Context, c *call, in *tenantPath) (*useView, error) {
	t, err := s.tenant(ctx, c, in.Org, in.Team)
	if err != nil {
		return nil, err
	}
	return s.limitUse(ctx, t.Org, t.Account(), t.Limit)
}

// tenantBody is the request body that creates an organisation or a team.
type tenantBody struct {
	ID      string        `json:"id" maxLength:"128" pattern:"^[^/\\x00-\\x1f\\x7f]*[^./\\x00-\\x1f\\x7f][^/\\x00-\\x1f\\x7f]*$"`
	Name    string        `json:"name,omitempty" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]*$"`
	Blocked bool          `json:"blocked,omitzero" doc:"Its keys are refused."`
	Limits  *limitsChange `json:"limits,omitempty"`
}

// tenantChange is the request body that changes an organisation or a team. Absent members
// stay unchanged.
type tenantChange struct {
	Name    *string       `json:"name,omitzero" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]*$"`
	Blocked *bool         `json:"blocked,omitzero" doc:"Its keys are refused."`
	Limits  *limitsChange `json:"limits,omitzero"`
}

// createTenantIn creates a team if the path of the route names an organisation.
type createTenantIn struct {
	orgPath
	Body tenantBody
}

func (s *server) createTenant(ctx context.Context, c *call, in *createTenantIn) (*tenantView, error) {
	b := in.Body
	at := tenantPath{orgPath{b.ID}, ""}
	if in.Org != "" {
		if _, err := s.tenant(ctx, c, in.Org, ""); err != nil {
			return nil, err
		}
		at = tenantPath{in.orgPath, b.ID}
	}
	t := store.Tenant{Org: at.Org, Team: at.Team, Name: b.Name, Blocked: b.Blocked, Created: s.Now()}
	if err := b.Limits.apply(&t.Limit); err != nil {
		return nil, err
	}
	err := s.change(ctx, c, change{object: t.Account(), org: t.Org, after: t}, func(ctx context.Context) error {
		return storeProblem(s.Tenants.CreateTenant(ctx, t), at.kind(), b.ID)
	})
	if err != nil {
		return nil, err
	}
	return viewTenant(t), nil
}

type updateTenantIn struct {
	tenantPath
	Body tenantChange
}

func (s *server) updateTenant(ctx context.Context, c *call, in *updateTenantIn) (*tenantView, error) {
	if err := in.Body.Limits.permit(c.operator); err != nil {
		return nil, err
	}
	if in.Team == "" && in.Org == c.operator.Org && in.Body.Blocked != nil && *in.Body.Blocked {
		return nil, conflict("own_key_inside", "your own key names this organisation and would be blocked with it; use a key that names none")
	}
	return s.editTenant(ctx, c, in.tenantPath, func(t *store.Tenant) error {
		set(&t.Name, in.Body.Name)
		set(&t.Blocked, in.Body.Blocked)
		return in.Body.Limits.apply(&t.Limit)
	})
}

type tenantBudgetIn struct {
	tenantPath
	Body budgetsBody
}

func (s *server) setTenantBudget(ctx context.Context, c *call, in *tenantBudgetIn) (*tenantView, error) {
	return s.editTenant(ctx, c, in.tenantPath, func(t *store.Tenant) error { return in.Body.apply(&t.Limit) })
}

func (s *server) editTenant(ctx context.Context, c *call, at tenantPath, edit func(*store.Tenant) error) (*tenantView, error) {
	before, err := s.tenant(ctx, c, at.Org, at.Team)
	if err != nil {
		return nil, err
	}
	after := before
	if err := edit(&after); err != nil {
		return nil, err
	}
	err = s.change(ctx, c, change{object: before.Account(), org: at.Org, before: before, after: after}, func(ctx context.Context) error {
		after, err = s.Tenants.UpdateTenant(ctx, at.Org, at.Team, func(t *store.Tenant) error {
			if *t != before {
				return concurrentChange(at.kind())
			}
			return edit(t)
		})
		return storeProblem(err, at.kind(), cmp.Or(at.Team, at.Org))
	})
	if err != nil {
		return nil, err
	}
	return viewTenant(after), nil
}
