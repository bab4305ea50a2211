package admin

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

type orgView struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Blocked bool      `json:"blocked" doc:"Its keys are refused."`
	Created time.Time `json:"created,omitzero"`
	Limits  limits    `json:"limits" doc:"For all its keys together."`
}

func viewOrg(o store.Org) orgView {
	return orgView{ID: o.ID, Name: o.Name, Blocked: o.Blocked, Created: o.Created, Limits: viewLimits(o.Limit)}
}

type orgList struct {
	Orgs []orgView `json:"orgs"`
	Next string    `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

type listOrgsIn struct{ page }

func (s *server) listOrgs(ctx context.Context, c *call, in *listOrgsIn) (*orgList, error) {
	if own := boundTo(c.operator); own != "" {
		o, err := s.org(ctx, c, own)
		if err != nil {
			return nil, err
		}
		return new(orgList{Orgs: []orgView{viewOrg(o)}}), nil
	}
	orgs, err := s.Orgs.Orgs(ctx, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(keyStoreName, err)
	}
	out := orgList{}
	for _, o := range orgs {
		out.Orgs = append(out.Orgs, viewOrg(o))
	}
	if len(orgs) == in.Limit {
		out.Next = orgs[len(orgs)-1].ID
	}
	return new(out), nil
}

// org returns an organisation that the operator may see.
func (s *server) org(ctx context.Context, c *call, id string) (store.Org, error) {
	if !c.canSeeOrg(id) {
		return store.Org{}, missing("organisation", id)
	}
	o, err := s.Orgs.Org(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return o, missing("organisation", id)
	case err != nil:
		return o, unavailable(keyStoreName, err)
	}
	return o, nil
}

func (s *server) getOrg(ctx context.Context, c *call, in *orgPath) (*orgView, error) {
	o, err := s.org(ctx, c, in.Org)
	if err != nil {
		return nil, err
	}
	return new(viewOrg(o)), nil
}

func (s *server) getOrgLimits(ctx context.Context, c *call, in *orgPath) (*useView, error) {
	o, err := s.org(ctx, c, in.Org)
	if err != nil {
		return nil, err
	}
	return s.limitUse(ctx, o.ID, "org:"+o.ID, o.Limit)
}

// tenantBody is the request body that creates an organisation or a team.
type tenantBody struct {
	ID      string        `json:"id" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$"`
	Name    string        `json:"name,omitempty" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]*$"`
	Blocked bool          `json:"blocked,omitzero" doc:"Its keys are refused."`
	Limits  *limitsChange `json:"limits,omitempty"`
}

// tenantChange is the request body that changes an organisation or a team. Absent members
// stay unchanged.
type tenantChange struct {
	Name    *string       `json:"name,omitempty" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]*$"`
	Blocked *bool         `json:"blocked,omitempty" doc:"Its keys are refused."`
	Limits  *limitsChange `json:"limits,omitempty"`
}

type createOrgIn struct{ Body tenantBody }

func (s *server) createOrg(ctx context.Context, c *call, in *createOrgIn) (*orgView, error) {
	b := in.Body
	o := store.Org{ID: b.ID, Name: b.Name, Blocked: b.Blocked, Created: s.Now()}
	if err := b.Limits.apply(&o.Limit); err != nil {
		return nil, err
	}
	err := s.change(ctx, c, change{object: "org:" + o.ID, org: o.ID, after: o}, func(ctx context.Context) error {
		return storeProblem(s.Orgs.CreateOrg(ctx, o), "organisation", o.ID)
	})
	if err != nil {
		return nil, err
	}
	return new(viewOrg(o)), nil
}

type updateOrgIn struct {
	orgPath
	Body tenantChange
}

func (s *server) updateOrg(ctx context.Context, c *call, in *updateOrgIn) (*orgView, error) {
	if in.Org == c.operator.Org && in.Body.Blocked != nil && *in.Body.Blocked {
		return nil, conflict("own_key_inside", "your own key names this organisation and would be blocked with it; use a key that names none")
	}
	return s.editOrg(ctx, c, in.Org, func(o *store.Org) error {
		set(&o.Name, in.Body.Name)
		set(&o.Blocked, in.Body.Blocked)
		return in.Body.Limits.apply(&o.Limit)
	})
}

type orgBudgetIn struct {
	orgPath
	Body budgetsBody
}

func (s *server) setOrgBudget(ctx context.Context, c *call, in *orgBudgetIn) (*orgView, error) {
	return s.editOrg(ctx, c, in.Org, func(o *store.Org) error { return in.Body.apply(&o.Limit) })
}

func (s *server) editOrg(ctx context.Context, c *call, id string, edit func(*store.Org) error) (*orgView, error) {
	before, err := s.org(ctx, c, id)
	if err != nil {
		return nil, err
	}
	after := before
	if err := edit(&after); err != nil {
		return nil, err
	}
	err = s.change(ctx, c, change{object: "org:" + id, org: id, before: before, after: after}, func(ctx context.Context) error {
		after, err = s.Orgs.UpdateOrg(ctx, id, func(o *store.Org) error {
			if *o != before {
				return concurrentChange("organisation")
			}
			return edit(o)
		})
		return storeProblem(err, "organisation", id)
	})
	if err != nil {
		return nil, err
	}
	return new(viewOrg(after)), nil
}
