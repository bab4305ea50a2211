package store

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/keyuse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/tenantnames"
)

// KeyUse is how much a key was used.
type KeyUse = keyuse.Use

// KeyName is a key with its name.
type KeyName = keyuse.Name

// KeyUses returns the use of the keys with the given ids. Keys that do not exist are left out.
func (s *Store) KeyUses(ctx context.Context, ids []string, since time.Time) (uses map[string]KeyUse, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
		uses, err = keyuse.Read(ctx, c, ids, since)
		return err
	})
	return uses, err
}

// KeyNames returns the names of keys by their ids. Keys that do not exist are left out.
func (s *Store) KeyNames(ctx context.Context, ids []string) (names map[string]string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
		names, err = keyuse.Names(ctx, c, ids)
		return err
	})
	return names, err
}

// FindKeys returns the key with an id, or else the keys with a name. If there are none, it returns names of keys that
// the filter selects.
func (s *Store) FindKeys(ctx context.Context, f KeyFilter, idOrName string) (found []KeyName, others []string, err error) {
	if !db.Storable(idOrName) {
		return nil, nil, nil
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
		found, others, err = keyuse.Find(ctx, c, f.where, idOrName)
		return err
	})
	return found, others, err
}

// TenantID is the id of an organisation, or of a team of it.
type TenantID = tenantnames.ID

// TenantFilter selects organisations, or the teams of one.
type TenantFilter = tenantnames.Filter

// TenantNames returns the names of organisations and teams. Those that do not exist are left out.
func (s *Store) TenantNames(ctx context.Context, ids []TenantID) (names map[TenantID]string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
		names, err = tenantnames.Read(ctx, c, ids)
		return err
	})
	return names, err
}

// FindTenants returns the id of the organisation or team with an id, or else the ids of those with a name. If there are
// none, it returns ids and names that the filter selects.
func (s *Store) FindTenants(ctx context.Context, f TenantFilter, idOrName string) (found, others []string, err error) {
	if !db.Storable(idOrName) || !db.Storable(f.TeamsOf) {
		return nil, nil, nil
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) (err error) {
		found, others, err = tenantnames.Find(ctx, c, f, idOrName)
		return err
	})
	return found, others, err
}
