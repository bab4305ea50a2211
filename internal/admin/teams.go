package admin

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/store"
)

type teamView struct {
	ID      string    `json:"id"`
	Org     string    `json:"org"`
	Name    string    `json:"name,omitempty"`
	Blocked bool      `json:"blocked" doc:"None of its keys is served."`
	Created time.Time `json:"created,omitzero"`
	Limits  limits    `json:"limits" doc:"Of all its keys together."`
}

func viewTeam(t store.Team) teamView {
	return teamView{ID: t.ID, Org: t.Org, Name: t.Name, Blocked: t.Blocked, Created: t.Created, Limits: viewLimits(t.Limit)}
}

type teamList struct {
	Teams []teamView `json:"teams" nullable:"false"`
	Next  string     `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

type listTeamsIn struct {
	OrgPath
	Page
}

func (s *server) listTeams(ctx context.Context, c *call, in *listTeamsIn) (*answer[teamList], error) {
	if _, err := s.org(ctx, c, in.Org); err != nil {
		return nil, err
	}
	teams, err := s.Teams.Teams(ctx, in.Org, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(keyStore, err)
	}
	out := teamList{}
	for _, t := range teams {
		out.Teams = append(out.Teams, viewTeam(t))
	}
	if len(teams) == in.Limit {
		out.Next = teams[len(teams)-1].ID
	}
	return answered(out), nil
}

// team looks a team up, for who may see it.
func (s *server) team(ctx context.Context, c *call, org, id string) (store.Team, error) {
	if !c.within(org) {
		return store.Team{}, missing("team", org+"/"+id)
	}
	t, err := s.Teams.Team(ctx, org, id)
	switch {
	case errors.Is(err, store.ErrNothing):
		return t, missing("team", org+"/"+id)
	case err != nil:
		return t, unavailable(keyStore, err)
	}
	return t, nil
}

func (s *server) getTeam(ctx context.Context, c *call, in *TeamPath) (*answer[teamView], error) {
	t, err := s.team(ctx, c, in.Org, in.Team)
	if err != nil {
		return nil, err
	}
	return answered(viewTeam(t)), nil
}

func (s *server) getTeamLimits(ctx context.Context, c *call, in *TeamPath) (*answer[useView], error) {
	t, err := s.team(ctx, c, in.Org, in.Team)
	if err != nil {
		return nil, err
	}
	return s.use(ctx, t.Org, "team:"+t.Org+"/"+t.ID, t.Limit)
}

type createTeamIn struct {
	OrgPath
	Body tenantBody
}

func (s *server) createTeam(ctx context.Context, c *call, in *createTeamIn) (*answer[teamView], error) {
	if _, err := s.org(ctx, c, in.Org); err != nil {
		return nil, err
	}
	b := in.Body
	t := store.Team{Org: in.Org, ID: b.ID, Name: b.Name, Blocked: b.Blocked, Created: s.Now()}
	if err := b.Limits.apply(&t.Limit); err != nil {
		return nil, err
	}
	err := s.change(ctx, c, change{object: "team:" + t.Org + "/" + t.ID, org: t.Org, after: t}, func(ctx context.Context) error {
		return stored(s.Teams.CreateTeam(ctx, t), "team", t.ID)
	})
	if err != nil {
		return nil, err
	}
	return answered(viewTeam(t)), nil
}

type updateTeamIn struct {
	TeamPath
	Body tenantChange
}

func (s *server) updateTeam(ctx context.Context, c *call, in *updateTeamIn) (*answer[teamView], error) {
	return s.editTeam(ctx, c, in.TeamPath, func(t *store.Team) error {
		set(&t.Name, in.Body.Name)
		set(&t.Blocked, in.Body.Blocked)
		return in.Body.Limits.apply(&t.Limit)
	})
}

type teamBudgetIn struct {
	TeamPath
	Body budgetBody
}

func (s *server) setTeamBudget(ctx context.Context, c *call, in *teamBudgetIn) (*answer[teamView], error) {
	return s.editTeam(ctx, c, in.TeamPath, func(t *store.Team) error { return in.Body.apply(&t.Limit) })
}

func (s *server) editTeam(ctx context.Context, c *call, at TeamPath, edit func(*store.Team) error) (*answer[teamView], error) {
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
				return changed("team")
			}
			return edit(t)
		})
		return stored(err, "team", at.Team)
	})
	if err != nil {
		return nil, err
	}
	return answered(viewTeam(after)), nil
}
