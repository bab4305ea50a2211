package store

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestSavePerson checks that an account is created once with its organisation and team, follows
// changes, and stays revoked.
func TestSavePerson(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ann := access.Record{ID: access.PersonID("acme", "https://idp", "ann"), Name: "ann", Org: "acme", Team: "search", Models: []string{"m"}, Criticality: "normal", Limit: quota.Limit{Requests: 5}}
		var all sync.WaitGroup
		for range 8 { // nodes that see a person at the same time
			all.Go(func() {
				if _, err := s.SavePerson(t.Context(), ann); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		ann.Team, ann.Limit.Requests, ann.Models = "ads", 7, []string{"m", "n"}
		got, err := s.SavePerson(t.Context(), ann)
		no(t, err)
		if got.Team != "ads" || got.Limit.Requests != 7 || !slices.Equal(got.Models, ann.Models) || got.Invalid || got.Role != "" {
			t.Errorf("%+v", got)
		}
		_, err = s.UpdateTenant(t.Context(), "acme", "ads", func(team *Tenant) error { team.Limit.Requests = 99; return nil })
		no(t, err)
		_, err = s.RevokeKey(t.Context(), ann.ID, time.Now())
		no(t, err)
		if got, err = s.SavePerson(t.Context(), ann); err != nil || got.Revoked.IsZero() || got.TeamLimit.Requests != 99 {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := s.RotateKey(t.Context(), ann.ID, access.Digest{Pepper: 1}, time.Now()); err == nil {
			t.Error("a person got a secret")
		}
		entries, err := s.AuditLog(t.Context(), AuditQuery{Action: "create-person"})
		no(t, err)
		if len(entries) != 1 {
			t.Errorf("%d audit entries, want 1", len(entries))
		}
	})
}
