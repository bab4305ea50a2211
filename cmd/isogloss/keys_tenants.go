package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
)

func newKeysTeams() *cobra.Command { return newTenants("team") }

func newKeysOrgs() *cobra.Command { return newTenants("org") }

// newTenants returns the command that lists teams or organisations, with commands below it
// that create and change them.
func newTenants(kind string) *cobra.Command {
	title := map[string]string{"team": "team", "org": "organisation"}[kind]
	cmd := &cobra.Command{
		Use:     kind + "s",
		Short:   "List, create and change " + title + "s",
		Long:    "List " + title + "s with their limits, or create and change one. A request must fit into the\nlimits of its key, its team and its organisation.",
		Example: "  isogloss keys " + kind + "s -c isogloss.yaml\n  isogloss keys " + kind + "s create -c isogloss.yaml web --budget 200 --window 30d\n  isogloss keys " + kind + "s update -c isogloss.yaml web --block",
		Args:    knownCommand,
	}
	o := options(cmd)
	org := new(string)
	if kind == "team" {
		org = cmd.Flags().String("org", "", "list the teams of this organisation only: the id or the name")
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, _ []string) error {
		var list []admin.Tenant
		var err error
		if kind == "team" {
			list, err = ring.Teams(cmd.Context(), *org)
		} else {
			list, err = ring.Orgs(cmd.Context())
		}
		if err != nil {
			return err
		}
		return printTenants(cmd.OutOrStdout(), list, *asJSON)
	})
	cmd.AddCommand(newTenantChange(kind, title, "create"), newTenantChange(kind, title, "update"))
	return cmd
}

// newTenantChange returns the command that creates or changes a team or an organisation.
func newTenantChange(kind, title, action string) *cobra.Command {
	short := map[string]string{"create": "Create", "update": "Change"}[action] + " the " + title + " with an id"
	cmd := &cobra.Command{
		Use: action + " ID", Short: short, Example: "  isogloss keys " + kind + "s " + action + " -c isogloss.yaml web --budget 200 --window 30d",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s takes the id of one %s", action, title)
			}
			return nil
		},
	}
	o := options(cmd)
	f := cmd.Flags()
	org := new(string)
	if kind == "team" {
		org = f.String("org", "default", "organisation of the team")
	}
	var limit limitFlags
	limit.add(cmd)
	name := f.String("name", "", "name for people; the id by default")
	var block, unblock bool
	if action == "update" {
		f.BoolVar(&block, "block", false, "reject its keys")
		f.BoolVar(&unblock, "unblock", false, "accept its keys again")
		cmd.MarkFlagsMutuallyExclusive("block", "unblock")
	}
	asJSON := f.Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		at := tenantFlags{org: args[0], name: *name, limit: limit, block: block, unblock: unblock}
		if kind == "team" {
			at.org, at.team = *org, args[0]
		}
		var t admin.Tenant
		var err error
		switch {
		case action == "create":
			t, err = at.create(cmd, ring)
		case !changesAny(cmd):
			err = errors.New("nothing to change; '" + cmd.CommandPath() + " --help' lists what can be changed")
		default:
			t, err = at.update(cmd, ring)
		}
		if err != nil {
			return err
		}
		return printTenants(cmd.OutOrStdout(), []admin.Tenant{t}, *asJSON)
	})
	return cmd
}

// tenantFlags names a team or an organisation and holds the flags that change it.
type tenantFlags struct {
	org, team, name string
	limit           limitFlags
	block, unblock  bool
}

func (f *tenantFlags) create(cmd *cobra.Command, ring *app.Keyring) (admin.Tenant, error) {
	limits, err := f.limit.change(cmd, admin.LimitsView{})
	if err != nil {
		return admin.Tenant{}, err
	}
	id := cmp.Or(f.team, f.org)
	body := admin.TenantBody{ID: id, Name: cmp.Or(f.name, id), Limits: limits}
	if f.team == "" {
		return ring.CreateOrg(cmd.Context(), body)
	}
	return ring.CreateTeam(cmd.Context(), f.org, body)
}

func (f *tenantFlags) update(cmd *cobra.Command, ring *app.Keyring) (admin.Tenant, error) {
	t, err := ring.Tenant(cmd.Context(), f.org, f.team)
	if err != nil {
		return t, err
	}
	var c admin.TenantChange
	if c.Limits, err = f.limit.change(cmd, t.Limits); err != nil {
		return t, err
	}
	if f.name != "" {
		c.Name = &f.name
	}
	if f.block || f.unblock {
		c.Blocked = &f.block
	}
	return ring.UpdateTenant(cmd.Context(), f.org, f.team, c)
}

// tenantRow is a team or an organisation as JSON.
type tenantRow struct {
	Org     string `json:"org"`
	Team    string `json:"team,omitempty"`
	Name    string `json:"name"`
	Blocked bool   `json:"blocked"`
	limitRow
	Created time.Time `json:"created"`
}

func printTenants(w io.Writer, list []admin.Tenant, asJSON bool) error {
	rows := make([]tenantRow, len(list))
	for i, t := range list {
		rows[i] = tenantRow{Org: t.ID, Name: t.Name, Blocked: t.Blocked, limitRow: newLimitRow(t.Limits), Created: t.Created}
		if t.Org != "" {
			rows[i].Org, rows[i].Team = t.Org, t.ID
		}
	}
	if asJSON {
		return printJSON(w, rows)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ORG\tTEAM\tNAME\tREQUESTS/MIN\tTOKENS/MIN\tOPEN\tBUDGET\tSTATE")
	for _, r := range rows {
		state := "active"
		if r.Blocked {
			state = "blocked"
		}
		plain.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Org, dash(r.Team), r.Name, limitText(r.Requests), limitText(r.Tokens), limitText(r.Concurrency), r.budget(), state)
	}
	return tw.Flush()
}
