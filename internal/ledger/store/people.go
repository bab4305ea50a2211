package store

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// SavePerson creates or changes the account of a person, and its organisation and team if they do not
// exist. The account is a key whose secret nobody knows. A revoked account stays revoked.
func (s *Store) SavePerson(ctx context.Context, r access.Record) (access.Record, error) {
	err := s.createPerson(ctx, r)
	if err == nil {
		return s.Key(ctx, r.ID)
	}
	if !errors.Is(err, ErrExists) {
		return r, err
	}
	if err := s.ensureTenants(ctx, r); err != nil {
		return r, err
	}
	return s.UpdateKey(ctx, r.ID, func(old *access.Record) error {
		old.TakeGrants(&r)
		return nil
	})
}

// createPerson adds an account with a digest of nothing.
func (s *Store) createPerson(ctx context.Context, r access.Record) error {
	var d access.Digest
	_, _ = rand.Read(d.Sum[:]) // never fails
	d.Pepper = 1
	r.Digests, r.Created, r.Role = []access.Digest{d}, time.Now(), ""
	err := s.CreateKey(ctx, r)
	if errors.Is(err, ErrNoOrg) || errors.Is(err, ErrNoTeam) {
		if err := s.ensureTenants(ctx, r); err != nil {
			return err
		}
		err = s.CreateKey(ctx, r)
	}
	if err != nil {
		return err
	}
	return s.Audit(ctx, Entry{At: r.Created, Actor: "identity", Org: r.Org, Action: "create-person", Object: "key:" + r.ID, Detail: "allowed"})
}

// ensureTenants creates the organisation and the team of an account if they do not exist.
func (s *Store) ensureTenants(ctx context.Context, r access.Record) error {
	now := time.Now()
	if err := s.CreateTenant(ctx, Tenant{Org: r.Org, Name: r.Org, Created: now}); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	if r.Team == "" {
		return nil
	}
	if err := s.CreateTenant(ctx, Tenant{Org: r.Org, Team: r.Team, Name: r.Team, Created: now}); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	return nil
}
