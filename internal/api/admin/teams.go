package admin

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

type teamView struct {
	ID      string    `json:"id"`
	Org     string    `json:"org"`
	Name    string    `json:"name,omitempty"`
	Blocked bool      `json:"blocked" doc:"Its keys are refused."`
	Created time.Time `json:"created,omitzero"`
	Limits  limits    `json:"limits" doc:"For all its keys together."`
}

func viewTeam(t store.Team) teamView {
	return teamView{ID: t.ID, Org: t.Org, Name: t.Name, Blocked: t.Blocked, Created: t.Created, Limits: viewLimits(t.Limit)}
}

type teamList struct {
	Teams []teamView `json:"teams"`
	Next  string     `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

type listTeamsIn struct {
	orgPath
	page
}

func (s *server) listTeams(ctx context.Context, c *call, in *listTeamsIn) (*teamList, error) {
	if _, err := s.org(ctx, c, in.Org); err != nil {
		return nil, err
	}
	teams, err := s.Teams.Teams(ctx, in.Org, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(keyStoreName, err)
	}
	out := teamList{}
	for _, t := range teams {
		out.Teams = append(out.Teams, viewTeam(t))
	}
	if len(teams) == in.Limit {
		out.Next = teams[len(teams)-1].ID
	}
	return new(out), nil
}

// team returns a team that the operator may see.
func (s *server) team(ctx context.Context, c *call, org, id string) (store.Team, error) {
	if !c.canSeeOrg(org) {
		return store.Team{}, missing("team", org+"/"+id)
	}
	t, err := s.Teams.Team(ctx, org, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return t, missing("team", org+"/"+id)
	case err != nil:
		return t, unavailable(keyStoreName, err)
	}
	return t, nil
}

func (s *server) getTeam(ctx context.Context, c *call, in *teamPath) (*teamView, error) {
	t, err := s.team(ctx, c, in.Org, in.Team)
	if err != nil {
		return nil, err
	}
	return new(viewTeam(t)), nil
}

func (s *server) getTeamLimits(ctx context.Context, c *call, in *teamPath) (*useView, error) {
	t, err := s.team(ctx, c, in.Org, in.Team)
	if err != nil {
		return nil, err
	}
	return s.limitUse(ctx, t.Org, "team:"+t.Org+"/"+t.ID, t.Limit)
}

type createTeamIn struct {
	orgPath
	Body tenantBody
}

func (s *server) createTeam(ctx context.Context, c *call, in *createTeamIn) (*teamView, error) {
	if _, err := s.org(ctx, c, in.Org); err != nil {
		return nil, err
	}
	b := in.Body
	t := store.Team{Org: in.Org, ID: b.ID, Name: b.Name, Blocked: b.Blocked, Created: s.Now()}
	if err := b.Limits.apply(&t.Limit); err != nil {
		return nil, err
	}
	err := s.change(ctx, c, change{object: "team:" + t.Org + "/" + t.ID, org: t.Org, after: t}, func(ctx context.Context) error {
		return storeProblem(s.Teams.CreateTeam(ctx, t), "team", t.ID)
	})
	if err != nil {
		return nil, err
	}
	return new(viewTeam(t)), nil
}

type updateTeamIn struct {
	teamPath
	Body tenantChange
}

func (s *server) updateTeam(ctx context.Context, c *call, in *updateTeamIn) (*teamView, error) {
	if err := in.Body.Limits.permit(c.operator); err != nil {
		return nil, err
	}
	return s.editTeam(ctx, c, in.teamPath, func(t *store.Team) error {
		set(&t.Name, in.Body.Name)
		set(&t.Blocked, in.Body.Blocked)
		return in.Body.Limits.apply(&t.Limit)
	})
}

type teamBudgetIn struct {
	teamPath
	Body budgetsBody
}

func (s *server) setTeamBudget(ctx context.Context, c *call, in *teamBudgetIn) (*teamView, error) {
	return s.editTeam(ctx, c, in.teamPath, func(t *store.Team) error { return in.Body.apply(&t.Limit) })
}

func (s *server) editTeam(ctx context.Context, c *call, at teamPath, edit func(*store.Team) error) (*teamView, error) {
	before, err := s.team(ctx, c, at.Org, at.Team)
	if err != nil {
		return nil, err
	}
	after := before
	if err := edit(&after); err != nil {
		return nil, err
	}
	object := "team:" + at.Org + "/" + at.Team
	err = s.change(ctx, c, change{object: object, org: at.Org, before: before, after: after}, func(ctx context.Context) error {
		after, err = s.Teams.UpdateTeam(ctx, at.Org, at.Team, func(t *store.Team) error {
			if *t != before {
				return concurrentChange("team")
			}
			return edit(t)
		})
		return storeProblem(err, "team", at.Team)
	})
	if err != nil {
		return nil, err
	}
	return new(viewTeam(after)), nil
}
