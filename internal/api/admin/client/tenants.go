package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
)

// Orgs returns all organisations.
func (c *Client) Orgs(ctx context.Context) ([]admin.Tenant, error) {
	return pages(ctx, c, "/orgs", url.Values{}, func(p admin.OrgList) ([]admin.Tenant, string) { return p.Orgs, p.Next })
}

// Teams returns the teams of an organisation, or of all.
func (c *Client) Teams(ctx context.Context, org string) (all []admin.Tenant, err error) {
	orgs := []admin.Tenant{{ID: org}}
	if org == "" {
		if orgs, err = c.Orgs(ctx); err != nil {
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
