package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// putMember creates a SCIM user that has had several names, the last one now, and a group with this member.
func putMember(t *testing.T, s *Store, org, user, group string, active bool, names ...string) {
	t.Helper()
	_, err := s.Provision(t.Context(), func(ctx context.Context, c db.Conn) (string, error) {
		last := names[len(names)-1]
		err := c.Exec(ctx, `INSERT INTO scim_users (id, issuer, org, user_name, external_id, active, deleted, data) VALUES ($1, 'i', $2, $1, $3, $4, 0, $5)`,
			user, org, last, active, fmt.Sprintf(`{"userName":%q,"externalId":%q}`, user, last))
		for _, name := range names {
			if err == nil {
				err = c.Exec(ctx, `INSERT INTO scim_names (name, org, user_id, given) VALUES ($1, $2, $3, 1)`, access.SCIMName("i", access.ExternalID, name), org, user)
			}
		}
		if err == nil {
			err = c.Exec(ctx, `INSERT INTO scim_groups (id, issuer, org, name, external_id, data) VALUES ($1, 'i', $2, $1, $3, $4)`, group, org, "id-"+group, fmt.Sprintf(`{"displayName":%q}`, "Name of "+group))
		}
		if err == nil {
			err = c.Exec(ctx, `INSERT INTO scim_members (group_id, user_id) VALUES ($1, $2)`, group, user)
		}
		return user, err
	})
	no(t, err)
}

// TestSCIMGroups checks whose groups a name gives: those of active users who have the name now, in the user's own
// directory. The feed of changes says when users or groups have changed.
func TestSCIMGroups(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		start, err := s.Changes(t.Context(), access.Cursor{}, 100)
		no(t, err)
		changed := func(want bool) {
			t.Helper()
			c, err := s.Changes(t.Context(), start.Next, 100)
			if err != nil || c.Groups != want {
				t.Errorf("%+v, %v", c, err)
			}
			start = c
		}
		no(t, s.CreateTenant(t.Context(), Tenant{Org: "acme"}))
		changed(false)
		putMember(t, s, "acme", "ann", "search", true, "old", "ann")
		changed(true)
		changed(false)
		putMember(t, s, "other", "eve", "admins", true, "ann") // another directory has a user with the name
		putMember(t, s, "acme", "bob", "sales", false, "bob")
		changed(true)
		want := func(name, list string) {
			t.Helper()
			groups, err := s.SCIMGroups(t.Context(), name)
			if got := fmt.Sprint(groups); err != nil || got != list {
				t.Errorf("%s, %v; want %s", got, err, list)
			}
		}
		named := func(attribute, value string) string { return access.SCIMName("i", attribute, value) }
		want(named(access.ExternalID, "old"), "[]")
		want(named(access.ExternalID, "bob"), "[]")
		want(named(access.UserName, "nobody"), "[]")
		want("", "[]")
		groups, err := s.SCIMGroups(t.Context(), named(access.ExternalID, "ann"))
		if err != nil || len(groups) != 2 {
			t.Fatalf("%+v, %v", groups, err)
		}
		for _, g := range groups {
			if expected := map[string]access.SCIMGroup{"acme": {Org: "acme", ExternalID: "id-search", Name: "Name of search"}, "other": {Org: "other", ExternalID: "id-admins", Name: "Name of admins"}}[g.Org]; g != expected {
				t.Errorf("%+v", g)
			}
		}
		_, err = s.Provision(t.Context(), func(ctx context.Context, c db.Conn) (string, error) {
			return "", c.Exec(ctx, `UPDATE scim_members SET group_id = 'admins' WHERE user_id = 'ann'`) // a group of the other directory
		})
		no(t, err)
		changed(true)
		if groups, err := s.SCIMGroups(t.Context(), named(access.ExternalID, "ann")); err != nil || len(groups) != 1 || groups[0].Org != "other" {
			t.Errorf("%+v, %v", groups, err)
		}
	})
}
