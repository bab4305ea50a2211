package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// putUser creates or changes a SCIM user with one name.
func putUser(t *testing.T, s *Store, id, org, name string, active bool, deleted int64) []Account {
	t.Helper()
	changed, err := s.Provision(t.Context(), func(ctx context.Context, c db.Conn) (string, error) {
		err := c.Exec(ctx, `INSERT INTO scim_users (id, issuer, org, user_name, external_id, active, deleted, data) VALUES ($1, 'i', $2, $1, '', $3, $4, '')
			ON CONFLICT (id) DO UPDATE SET active = excluded.active, deleted = excluded.deleted`, id, org, active, deleted)
		if err != nil {
			return "", err
		}
		return id, c.Exec(ctx, `INSERT INTO scim_names (name, org, user_id, given) VALUES ($1, $2, $3, 1) ON CONFLICT (name, org) DO UPDATE SET user_id = excluded.user_id`, name, org, id)
	})
	no(t, err)
	return changed
}

func personIn(org, subject, name string, required bool) access.Record {
	return access.Record{ID: access.PersonID(org, "i", subject), Org: org, Models: []string{"m"}, SCIMName: name, SCIMRequired: required}
}

// TestSCIMUsers checks that a user who is inactive or deleted removes accounts that exist and those
// that come later, that an active one restores them, and that neither concerns other organisations or
// what an operator has revoked.
func TestSCIMUsers(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		removed := func(r access.Record) bool {
			t.Helper()
			got, err := s.SavePerson(t.Context(), r)
			no(t, err)
			again, err := s.Key(t.Context(), r.ID)
			no(t, err)
			if got.Removed.IsZero() != again.Removed.IsZero() || again.SCIMName != r.SCIMName || again.SCIMRequired != r.SCIMRequired {
				t.Errorf("%+v", again)
			}
			return !again.Removed.IsZero()
		}
		ann := personIn("acme", "ann", "n-ann", false)
		if removed(ann) {
			t.Error("a person without a user is removed")
		}
		before, err := s.Key(t.Context(), ann.ID)
		no(t, err)
		if putUser(t, s, "u1", "acme", "n-ann", true, 0) != nil {
			t.Error("an active user changed an account")
		}
		changed := putUser(t, s, "u1", "acme", "n-ann", false, 0)
		if len(changed) != 1 || changed[0] != (Account{ann.ID, "acme", true}) || !removed(ann) {
			t.Errorf("an inactive user: %+v", changed)
		}
		if after, _ := s.Key(t.Context(), ann.ID); after.Revision <= before.Revision || !after.Revoked.IsZero() {
			t.Errorf("%+v after %+v: the feed does not show it, or the account is revoked", after, before)
		}
		if !removed(personIn("acme", "ann2", "n-ann", false)) {
			t.Error("a person without an account is not removed")
		}
		if removed(personIn("other", "ann", "n-ann", false)) {
			t.Error("a user of one organisation removes an account of another one")
		}
		_, err = s.RevokeKey(t.Context(), ann.ID, time.Now())
		no(t, err)
		if changed := putUser(t, s, "u1", "acme", "n-ann", true, 0); len(changed) != 2 || removed(ann) {
			t.Errorf("an active user again: %+v", changed)
		}
		if r, _ := s.Key(t.Context(), ann.ID); r.Revoked.IsZero() {
			t.Error("SCIM restored what an operator has revoked")
		}
		putUser(t, s, "u1", "acme", "n-ann", true, 5)
		if !removed(ann) {
			t.Error("a deleted user lets the person in")
		}
		putUser(t, s, "u2", "acme", "n-ann", true, 0) // created again
		if removed(ann) {
			t.Error("a user who was created again stays removed")
		}
		putUser(t, s, "u3", "", "n-ann", false, 0) // of all organisations
		if !removed(ann) || !removed(personIn("other", "ann", "n-ann", false)) {
			t.Error("a user of all organisations does not remove all accounts")
		}

		bob := personIn("acme", "bob", "n-bob", true)
		if !removed(bob) || !removed(personIn("acme", "nameless", "", true)) {
			t.Error("a user is required, and a person without one is admitted")
		}
		if changed := putUser(t, s, "u4", "acme", "n-bob", true, 0); len(changed) != 1 || changed[0].Removed || removed(bob) {
			t.Errorf("the required user: %+v", changed)
		}
		bob.SCIMRequired, bob.SCIMName = false, "" // SCIM is off
		putUser(t, s, "u4", "acme", "n-bob", false, 0)
		if removed(bob) {
			t.Error("SCIM is off, and the person stays removed")
		}
	})
}

// TestSCIMRace checks that a person whose first request meets the removal of the user is removed,
// whichever comes first.
func TestSCIMRace(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		a, b := open(), open()
		for _, name := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"} {
			p := personIn("default", name, name, false)
			putUser(t, a, name, "", name, true, 0)
			var both sync.WaitGroup
			both.Go(func() { putUser(t, a, name, "", name, false, 0) })
			both.Go(func() {
				if _, err := b.SavePerson(t.Context(), p); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
			if r, err := a.Key(t.Context(), p.ID); err != nil || r.Removed.IsZero() {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	})
}

// TestProvisionFails checks that an error undoes a change and takes no account along.
func TestProvisionFails(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		putUser(t, s, "u1", "", "n", true, 0)
		_, err := s.Provision(t.Context(), func(ctx context.Context, c db.Conn) (string, error) {
			if err := c.Exec(ctx, `DELETE FROM scim_users`); err != nil {
				return "", err
			}
			return "", errTest
		})
		if !errors.Is(err, errTest) || count(t, s, "scim_users") != 1 {
			t.Errorf("%v, %d users", err, count(t, s, "scim_users"))
		}
		_, err = s.Provision(t.Context(), func(ctx context.Context, c db.Conn) (string, error) {
			return "", c.Exec(ctx, `INSERT INTO scim_users (id, issuer, org, user_name, external_id, active, deleted, data) VALUES ('u1', 'i', '', 'x', '', TRUE, 0, '')`)
		})
		if !errors.Is(err, ErrExists) {
			t.Error(err)
		}
	})
}

var errTest = errors.New("test")
