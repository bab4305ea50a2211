package scim

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

const userSchema = "urn:ietf:params:scim:schemas:core:2.0:User"

// user is a user resource. Attributes that are not here are accepted and not stored.
type user struct {
	Schemas     []string `json:"schemas"`
	ID          string   `json:"id"`
	ExternalID  string   `json:"externalId,omitempty"`
	UserName    string   `json:"userName"`
	DisplayName string   `json:"displayName,omitempty"`
	Name        *name    `json:"name,omitempty"`
	Emails      []email  `json:"emails,omitempty"`
	Active      bool     `json:"active"`
	Meta        meta     `json:"meta"`
}

type name struct {
	Formatted string `json:"formatted,omitempty"`
	Family    string `json:"familyName,omitempty"`
	Given     string `json:"givenName,omitempty"`
}

type email struct {
	Value   string `json:"value"`
	Type    string `json:"type,omitempty"`
	Primary bool   `json:"primary,omitzero"`
}

func newUser() *user {
	now := time.Now().UTC()
	return &user{Schemas: []string{userSchema}, ID: uuid.NewString(), Active: true, Meta: meta{Type: "User", Created: now}}
}

// apply makes changes and checks the result.
func (u *user) apply(changes []change) error {
	for i := range changes {
		if err := u.change(&changes[i]); err != nil {
			return err
		}
	}
	if u.UserName == "" {
		return invalid(invalidValue, "a user needs a userName")
	}
	u.Meta.Modified = time.Now().UTC()
	return nil
}

// change makes one change. Unknown attributes are ignored.
func (u *user) change(c *change) (err error) {
	switch c.attribute {
	case "active":
		if c.remove {
			return invalid(mutability, "active cannot be removed; set it to false")
		}
		u.Active, err = c.flag()
	case "username":
		u.UserName, err = c.text()
	case "externalid":
		u.ExternalID, err = c.text()
	case "displayname":
		u.DisplayName, err = c.text()
	case "name":
		err = u.changeName(c)
	case "emails":
		err = u.changeEmails(c)
	}
	return err
}

// changeName changes the name, or a part of it.
func (u *user) changeName(c *change) (err error) {
	next := name{}
	if u.Name != nil {
		next = *u.Name
	}
	parts := map[string]*string{"formatted": &next.Formatted, "familyname": &next.Family, "givenname": &next.Given}
	switch whole, isObject := c.value.(map[string]any); {
	case c.sub != "":
		if part := parts[c.sub]; part != nil {
			*part, err = c.text()
		}
	case c.remove || c.value == nil:
		next = name{}
	case !isObject:
		return invalid(invalidValue, "name is not an object")
	default:
		for sub, part := range parts {
			if v := member(whole, sub); v != nil && err == nil {
				*part, err = (&change{value: v}).text()
			}
		}
	}
	if u.Name = &next; next == (name{}) {
		u.Name = nil
	}
	return err
}

// changeEmails changes all addresses, those that a filter selects, or one attribute of these.
func (u *user) changeEmails(c *change) error {
	selected := func(e email) bool { return e.matches(c.filter) }
	switch {
	case c.remove && c.sub == "":
		u.Emails = slices.DeleteFunc(slices.Clone(u.Emails), selected)
		return nil
	case c.sub != "":
		return u.changeEmail(c)
	}
	if c.replace {
		u.Emails = slices.DeleteFunc(slices.Clone(u.Emails), selected)
	}
	objects, err := c.objects()
	if err != nil {
		return err
	}
	for _, o := range objects {
		e := email{}
		for _, sub := range []string{"value", "type", "primary"} {
			if v := member(o, sub); v != nil && err == nil {
				err = e.set(sub, &change{value: v})
			}
		}
		if err != nil {
			return err
		}
		if !slices.Contains(u.Emails, e) {
			u.Emails = append(slices.Clip(u.Emails), e)
		}
	}
	return u.checkEmails()
}

// changeEmail sets an attribute of the addresses that a filter selects. If there is none, it adds
// one, as Entra expects.
func (u *user) changeEmail(c *change) error {
	u.Emails = slices.Clone(u.Emails)
	if !c.remove && !slices.ContainsFunc(u.Emails, func(e email) bool { return e.matches(c.filter) }) {
		e := email{}
		for _, t := range c.filter {
			if err := e.set(t.attribute, &change{value: t.value}); err != nil {
				return err
			}
		}
		u.Emails = append(u.Emails, e)
	}
	for i := range u.Emails {
		if u.Emails[i].matches(c.filter) {
			if err := u.Emails[i].set(c.sub, c); err != nil {
				return err
			}
		}
	}
	u.Emails = slices.DeleteFunc(u.Emails, func(e email) bool { return e.Value == "" })
	return u.checkEmails()
}

func (u *user) checkEmails() error {
	if len(u.Emails) > maxEmails {
		return tooMuch("a user may have %d addresses", maxEmails)
	}
	return nil
}

// set sets an attribute of an address. Unknown attributes are ignored.
func (e *email) set(sub string, c *change) (err error) {
	switch sub {
	case "value":
		e.Value, err = c.text()
	case "type":
		e.Type, err = c.text()
	case "primary":
		if e.Primary = false; !c.remove {
			e.Primary, err = c.flag()
		}
	}
	return err
}

// matches reports whether an address fulfils all conditions.
func (e email) matches(filter []term) bool {
	for _, t := range filter {
		has := map[string]string{"value": e.Value, "type": e.Type, "primary": map[bool]string{true: "true", false: "false"}[e.Primary]}
		if !strings.EqualFold(has[t.attribute], t.value) {
			return false
		}
	}
	return true
}

func (s *server) listUsers(r *request) (int, any, error) {
	p, err := r.page()
	if err != nil {
		return 0, nil, err
	}
	w, err := r.where(map[string]string{"id": "id", "username": "user_name", "externalid": "external_id", "active": "active"})
	if err != nil {
		return 0, nil, err
	}
	var found []*user
	var total int
	err = s.Store.Read(r.Context(), func(ctx context.Context, c db.Conn) (err error) {
		found, total, err = readUsers(ctx, c, r.dir, w, p)
		return err
	})
	var out []any
	for _, u := range found {
		out = append(out, u.at(r))
	}
	return http.StatusOK, newList(total, p.start, out), err
}

// at sets the address of a user.
func (u *user) at(r *request) *user {
	u.Meta.Location = r.base + "/Users/" + u.ID
	return u
}

func (u *user) location() string { return u.Meta.Location }

func (s *server) getUser(r *request) (int, any, error) {
	u, err := s.user(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, u.at(r), nil
}

// user reads the user of a request.
func (s *server) user(r *request) (u *user, err error) {
	err = s.Store.Read(r.Context(), func(ctx context.Context, c db.Conn) error {
		u, err = readUser(ctx, c, r.dir, r.id)
		return err
	})
	return u, err
}

func (s *server) createUser(r *request) (int, any, error) {
	changes, err := r.changes(changesOf)
	if err != nil {
		return 0, nil, err
	}
	u := newUser()
	if err := u.apply(changes); err != nil {
		return 0, nil, err
	}
	err = s.provision(r, "scim-user:"+u.ID, nil, u, func(ctx context.Context, c db.Conn) (string, error) {
		return u.ID, insertUser(ctx, c, r.dir, u)
	})
	return http.StatusCreated, u.at(r), err
}

func (s *server) putUser(r *request) (int, any, error) {
	return s.editUser(r, changesOf, func(old *user) *user {
		u := newUser() // without active in the body, the user stays as it is
		u.ID, u.Meta.Created, u.Active = old.ID, old.Meta.Created, old.Active
		return u
	})
}

func (s *server) patchUser(r *request) (int, any, error) {
	return s.editUser(r, readPatch, func(old *user) *user { u := *old; return &u })
}

// editUser changes a user: read returns the changes of the body, and from what they start with.
func (s *server) editUser(r *request, read func(map[string]any) ([]change, error), from func(old *user) *user) (int, any, error) {
	changes, err := r.changes(read)
	if err != nil {
		return 0, nil, err
	}
	edit := func(old *user) (*user, error) {
		u := from(old)
		return u, u.apply(changes)
	}
	before, err := s.user(r)
	if err != nil {
		return 0, nil, err
	}
	after, err := edit(before)
	if err != nil {
		return 0, nil, err
	}
	err = s.provision(r, "scim-user:"+r.id, before, after, func(ctx context.Context, c db.Conn) (string, error) {
		old, err := readUser(ctx, c, r.dir, r.id) // again: it may have changed
		if err != nil {
			return "", err
		}
		if after, err = edit(old); err != nil {
			return "", err
		}
		return r.id, updateUser(ctx, c, r.dir, after)
	})
	return http.StatusOK, after.at(r), err
}

func (s *server) deleteUser(r *request) (int, any, error) {
	before, err := s.user(r)
	if err != nil {
		return 0, nil, err
	}
	err = s.provision(r, "scim-user:"+r.id, before, nil, func(ctx context.Context, c db.Conn) (string, error) {
		return r.id, removeUser(ctx, c, r.dir, r.id)
	})
	return http.StatusNoContent, nil, err
}

// provision makes a change, with an entry in the audit log before it and one for each account that
// it has removed or restored.
func (s *server) provision(r *request, object string, before, after any, do func(context.Context, db.Conn) (string, error)) error {
	var changed []store.Account
	err := s.Guard.Change(r.Context(), r.call, object, before, after, func(ctx context.Context) (err error) {
		if changed, err = s.Store.Provision(ctx, do); err != nil {
			return asProblem(err)
		}
		return nil
	})
	for _, a := range changed {
		action := "person.restore"
		if a.Removed {
			action = "person.remove"
		}
		s.Guard.Record(r.Context(), r.call, action, "key:"+a.ID, a.Org)
	}
	return err
}
