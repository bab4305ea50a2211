package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/similar"
)

// Orgs returns all organisations.
func (c *Client) Orgs(ctx context.Context) ([]admin.Tenant, error) {
	return pages(ctx, c, "/orgs", url.Values{}, func(p admin.OrgList) ([]admin.Tenant, string) { return p.Orgs, p.Next })
}

// Teams returns the teams of the organisation with an id or a name, or of all.
func (c *Client) Teams(ctx context.Context, org string) (all []admin.Tenant, err error) {
	orgs, err := c.Orgs(ctx)
	if err != nil {
		return nil, err
	}
	if org != "" {
		if orgs, err = chooseOrg(orgs, org); err != nil {
			return nil, err
		}
	}
	for _, o := range orgs {
		teams, err := pages(ctx, c, tenantPath(o.ID, "")+"/teams", url.Values{}, func(p admin.TeamList) ([]admin.Tenant, string) { return p.Teams, p.Next })
		if err != nil {
			return nil, err
		}
		all = append(all, teams...)
	}
	return all, nil
}

// chooseOrg returns the organisation with an id or a name.
func chooseOrg(all []admin.Tenant, idOrName string) ([]admin.Tenant, error) {
	var named, ids []string
	for i := range all {
		if all[i].ID == idOrName {
			return all[i : i+1], nil
		}
		ids = append(ids, all[i].ID, all[i].Name)
		if all[i].Name == idOrName {
			named = append(named, all[i].ID)
		}
	}
	if len(named) == 1 {
		return []admin.Tenant{{ID: named[0]}}, nil
	}
	if len(named) > 1 {
		return nil, fmt.Errorf("%d organisations have the name %q; write an id: %s", len(named), idOrName, strings.Join(named, ", "))
	}
	if near := similar.Name(idOrName, ids); near != "" {
		return nil, fmt.Errorf("there is no organisation with the id or name %q; did you mean %q?", idOrName, plain.Line(near))
	}
	return nil, fmt.Errorf("there is no organisation with the id or name %q; 'isogloss keys orgs' shows them", idOrName)
}

// Tenant returns an organisation, or a team of it if one is named.
func (c *Client) Tenant(ctx context.Context, org, team string) (admin.Tenant, error) {
	return do[admin.Tenant](ctx, c, http.MethodGet, tenantPath(org, team), nil, nil)
}

// CreateOrg creates an organisation.
func (c *Client) CreateOrg(ctx context.Context, body admin.TenantBody) (admin.Tenant, error) {
	return do[admin.Tenant](ctx, c, http.MethodPost, "/orgs", nil, body)
}

// CreateTeam creates a team, and its organisation if it does not exist.
func (c *Client) CreateTeam(ctx context.Context, org string, body admin.TenantBody) (admin.Tenant, error) {
	if err := c.ensure(ctx, org, ""); err != nil {
		return admin.Tenant{}, err
	}
	return do[admin.Tenant](ctx, c, http.MethodPost, tenantPath(org, "")+"/teams", nil, body)
}

// UpdateTenant changes an organisation or a team.
func (c *Client) UpdateTenant(ctx context.Context, org, team string, change admin.TenantChange) (admin.Tenant, error) {
	return do[admin.Tenant](ctx, c, http.MethodPatch, tenantPath(org, team), nil, change)
}

// TenantUse returns the current use of the limits of an organisation or a team.
func (c *Client) TenantUse(ctx context.Context, org, team string) (admin.UseView, error) {
	return do[admin.UseView](ctx, c, http.MethodGet, tenantPath(org, team)+"/limits", nil, nil)
}

// ensure creates an organisation and a team of it if they do not exist. An empty id is none.
func (c *Client) ensure(ctx context.Context, org, team string) error {
	if org == "" {
		return nil
	}
	if _, err := c.Tenant(ctx, org, team); !isCode(err, "not_found") {
		return err
	}
	var err error
	if team == "" {
		_, err = c.CreateOrg(ctx, admin.TenantBody{ID: org, Name: shortName(org)})
	} else {
		_, err = c.CreateTeam(ctx, org, admin.TenantBody{ID: team, Name: shortName(team)})
	}
	if isCode(err, "exists") { // another command was faster
		return nil
	}
	return err
}

// maxName is the maximum length of a name.
const maxName = 100

// shortName returns an id as the name of a tenant: empty, so that the id is shown, if it is too long.
func shortName(id string) string {
	if len(id) > maxName {
		return ""
	}
	return id
}

func tenantPath(org, team string) string {
	path := "/orgs/" + url.PathEscape(org)
	if team != "" {
		path += "/teams/" + url.PathEscape(team)
	}
	return path
}
