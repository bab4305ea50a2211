package scim

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

const groupSchema = "urn:ietf:params:scim:schemas:core:2.0:Group"

// group is a group resource.
type group struct {
	Schemas     []string `json:"schemas"`
	ID          string   `json:"id"`
	ExternalID  string   `json:"externalId,omitempty"`
	DisplayName string   `json:"displayName"`
	Members     []ref    `json:"members,omitempty"` // not in the column data
	Meta        meta     `json:"meta"`
}

// ref names a member.
type ref struct {
	Value string `json:"value"`
}

// memberChange is a change of the members: all are removed, or some are, and then some are added.
type memberChange struct {
	clear       bool
	remove, add []string
}

func newGroup() *group {
	now := time.Now().UTC()
	return &group{Schemas: []string{groupSchema}, ID: uuid.NewString(), Meta: meta{Type: "Group", Created: now}}
}

// apply makes changes, checks the result, and returns the changes of the members.
func (g *group) apply(changes []change) (members []memberChange, err error) {
	for i := range changes {
		c := &changes[i]
		switch c.attribute {
		case "displayname":
			g.DisplayName, err = c.text()
		case "externalid":
			g.ExternalID, err = c.text()
		case "members":
			var m memberChange
			m, err = c.members()
			members = append(members, m)
		}
		if err != nil {
			return nil, err
		}
	}
	if g.DisplayName == "" {
		return nil, invalid(invalidValue, "a group needs a displayName")
	}
	g.Meta.Modified = time.Now().UTC()
	return members, nil
}

// members returns a change of the members.
func (c *change) members() (m memberChange, err error) {
	var ids []string
	for _, t := range c.filter {
		if t.attribute != "value" || !c.remove {
			return m, invalid(invalidPath, "members are selected by value, to be removed")
		}
		ids = append(ids, t.value)
	}
	objects, err := c.objects()
	if err != nil {
		return m, err
	}
	for _, o := range objects {
		id, ok := member(o, "value").(string)
		if !ok || id == "" || len(id) > maxText {
			return m, invalid(invalidValue, "a member has no value")
		}
		ids = append(ids, id)
	}
	switch {
	case len(ids) > maxMembers:
		return m, tooMuch("a group may have %d members", maxMembers)
	case c.remove && len(ids) == 0:
		m.clear = true
	case c.remove:
		m.remove = ids
	default:
		m.clear, m.add = c.replace, ids
	}
	return m, nil
}

func (s *server) listGroups(r *request) (int, any, error) {
	p, err := r.page()
	if err != nil {
		return 0, nil, err
	}
	w, err := r.where(map[string]string{"id": "id", "displayname": "name", "externalid": "external_id", "members": "member", "members.value": "member"})
	if err != nil {
		return 0, nil, err
	}
	var out []any
	var total int
	err = s.Store.Read(r.Context(), func(ctx context.Context, c db.Conn) error {
		out = nil
		found, count, err := readPage[group](ctx, c, "scim_groups", r.dir, w, p)
		total = count
		listed := 0
		for _, g := range found {
			if err == nil && !r.excludes("members") {
				err = g.readMembers(ctx, c)
			}
			if listed += len(g.Members); listed > maxListed && len(out) > 0 { // the next page has it
				break
			}
			out = append(out, g.at(r))
		}
		return err
	})
	return http.StatusOK, newList(total, p.start, out), err
}

// at sets the address of a group.
func (g *group) at(r *request) *group {
	g.Meta.Location = r.base + "/Groups/" + g.ID
	return g
}

func (g *group) location() string { return g.Meta.Location }

func (s *server) getGroup(r *request) (int, any, error) {
	g, err := s.group(r, !r.excludes("members"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, g.at(r), nil
}

// group reads the group of a request.
func (s *server) group(r *request, withMembers bool) (g *group, err error) {
	err = s.Store.Read(r.Context(), func(ctx context.Context, c db.Conn) error {
		if g, err = readGroup(ctx, c, r.dir, r.id); err != nil || !withMembers {
			return err
		}
		return g.readMembers(ctx, c)
	})
	return g, err
}

func (s *server) createGroup(r *request) (int, any, error) {
	changes, err := r.changes(changesOf)
	if err != nil {
		return 0, nil, err
	}
	g := newGroup()
	members, err := g.apply(changes)
	if err != nil {
		return 0, nil, err
	}
	err = s.provision(r, "scim-group:"+g.ID, nil, g, func(ctx context.Context, c db.Conn) (string, error) {
		return "", insertGroup(ctx, c, r.dir, g, members)
	})
	if err != nil {
		return 0, nil, err
	}
	r.id = g.ID
	_, out, err := s.getGroup(r)
	return http.StatusCreated, out, err
}

func (s *server) putGroup(r *request) (int, any, error) {
	changes := func(body map[string]any) ([]change, error) {
		changes, err := changesOf(body)
		if member(body, "members") == nil { // a group without members
			changes = append(changes, change{replace: true, attribute: "members"})
		}
		return changes, err
	}
	err := s.editGroup(r, changes, func(old *group) *group {
		g := newGroup()
		g.ID, g.Meta.Created = old.ID, old.Meta.Created
		return g
	})
	if err != nil {
		return 0, nil, err
	}
	return s.getGroup(r)
}

// patchGroup changes a group. The response has no body: it could have many members.
func (s *server) patchGroup(r *request) (int, any, error) {
	err := s.editGroup(r, readPatch, func(old *group) *group { g := *old; return &g })
	return http.StatusNoContent, nil, err
}

// editGroup changes a group: read returns the changes of the body, and from what they start with.
func (s *server) editGroup(r *request, read func(map[string]any) ([]change, error), from func(old *group) *group) error {
	changes, err := r.changes(read)
	if err != nil {
		return err
	}
	before, err := s.group(r, false)
	if err != nil {
		return err
	}
	after := from(before)
	members, err := after.apply(changes)
	if err != nil {
		return err
	}
	return s.provision(r, "scim-group:"+r.id, before, after, func(ctx context.Context, c db.Conn) (string, error) {
		old, err := readGroup(ctx, c, r.dir, r.id) // again: it may have changed
		if err != nil {
			return "", err
		}
		after = from(old)
		if members, err = after.apply(changes); err != nil {
			return "", err
		}
		return "", updateGroup(ctx, c, r.dir, after, members)
	})
}

func (s *server) deleteGroup(r *request) (int, any, error) {
	before, err := s.group(r, false)
	if err != nil {
		return 0, nil, err
	}
	err = s.provision(r, "scim-group:"+r.id, before, nil, func(ctx context.Context, c db.Conn) (string, error) {
		if err := c.Exec(ctx, `DELETE FROM scim_members WHERE group_id = $1`, r.id); err != nil {
			return "", err
		}
		return "", c.Exec(ctx, `DELETE FROM scim_groups WHERE id = $1 AND issuer = $2 AND org = $3`, r.id, r.dir.issuer, r.dir.org)
	})
	return http.StatusNoContent, nil, err
}

func readGroup(ctx context.Context, c db.Conn, d directory, id string) (*group, error) {
	return readData[group](c.Row(ctx, `SELECT data FROM scim_groups WHERE id = $1 AND issuer = $2 AND org = $3`, id, d.issuer, d.org))
}

func (g *group) readMembers(ctx context.Context, c db.Conn) error {
	g.Members = nil
	return c.Rows(ctx, func(scan db.Scan) error {
		var m ref
		err := scan(&m.Value)
		g.Members = append(g.Members, m)
		return err
	}, `SELECT user_id FROM scim_members WHERE group_id = $1 ORDER BY user_id`, g.ID)
}

func insertGroup(ctx context.Context, c db.Conn, d directory, g *group, members []memberChange) error {
	var count int
	if err := c.Row(ctx, `SELECT count(*) FROM scim_groups WHERE issuer = $1 AND org = $2`, d.issuer, d.org)(&count); err != nil {
		return err
	}
	if count >= maxGroups {
		return full("a directory may have %d groups", maxGroups)
	}
	text, err := g.data()
	if err != nil {
		return err
	}
	err = c.Exec(ctx, `INSERT INTO scim_groups (id, issuer, org, name, external_id, data) VALUES ($1, $2, $3, $4, $5, $6)`,
		g.ID, d.issuer, d.org, strings.ToLower(g.DisplayName), g.ExternalID, text)
	if err != nil {
		return err
	}
	return g.changeMembers(ctx, c, d, members)
}

func updateGroup(ctx context.Context, c db.Conn, d directory, g *group, members []memberChange) error {
	text, err := g.data()
	if err != nil {
		return err
	}
	err = c.Exec(ctx, `UPDATE scim_groups SET name = $2, external_id = $3, data = $4 WHERE id = $1`, g.ID, strings.ToLower(g.DisplayName), g.ExternalID, text)
	if err != nil {
		return err
	}
	return g.changeMembers(ctx, c, d, members)
}

// data returns the group without its members, as JSON.
func (g *group) data() (string, error) {
	bare := *g
	bare.Members = nil
	text, err := json.Marshal(bare)
	return string(text), err
}

// changeMembers stores changes of the members and checks the limits.
func (g *group) changeMembers(ctx context.Context, c db.Conn, d directory, changes []memberChange) error {
	for _, m := range changes {
		if m.clear {
			if err := c.Exec(ctx, `DELETE FROM scim_members WHERE group_id = $1`, g.ID); err != nil {
				return err
			}
		}
		if len(m.remove) > 0 {
			list, err := json.Marshal(m.remove)
			if err != nil {
				return err
			}
			if err := c.Exec(ctx, `DELETE FROM scim_members WHERE user_id IN (`+c.List()+`) AND group_id = $2`, string(list), g.ID); err != nil {
				return err
			}
		}
		if err := g.addMembers(ctx, c, d, m.add); err != nil {
			return err
		}
	}
	if len(changes) == 0 {
		return nil
	}
	var count int
	if err := c.Row(ctx, `SELECT count(*) FROM scim_members WHERE group_id = $1`, g.ID)(&count); err != nil {
		return err
	}
	if count > maxMembers {
		return full("a group may have %d members", maxMembers)
	}
	return nil
}

// addMembers adds users of the directory.
func (g *group) addMembers(ctx context.Context, c db.Conn, d directory, ids []string) error {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	if len(wanted) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	users := ` FROM scim_users WHERE id IN (` + c.List() + `) AND issuer = $2 AND org = $3 AND deleted = 0`
	var known int
	if err := c.Row(ctx, `SELECT count(*)`+users, string(list), d.issuer, d.org)(&known); err != nil {
		return err
	}
	if known < len(wanted) {
		return invalid(invalidValue, "a member is not a user of this directory")
	}
	err = c.Exec(ctx, `INSERT INTO scim_members (group_id, user_id) SELECT $4, id`+users+` ON CONFLICT (group_id, user_id) DO NOTHING`, string(list), d.issuer, d.org, g.ID)
	if err != nil {
		return err
	}
	var most int
	err = c.Row(ctx, `SELECT COALESCE(max(groups), 0) FROM (SELECT count(*) AS groups FROM scim_members WHERE user_id IN (`+c.List()+`) GROUP BY user_id) x`, string(list))(&most)
	if err == nil && most > maxUserGroups {
		err = full("a user may be in %d groups", maxUserGroups)
	}
	return err
}
