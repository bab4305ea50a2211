// Package names finds keys, organisations and teams by their names, and sets their names in what the admin API and its
// files show.
package names

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/similar"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Keys is the store of keys.
type Keys interface {
	KeyNames(ctx context.Context, ids []string) (map[string]string, error)
	FindKeys(ctx context.Context, f store.KeyFilter, idOrName string) (found []store.KeyName, others []string, err error)
}

// Tenants is the store of organisations and teams.
type Tenants interface {
	TenantNames(ctx context.Context, ids []store.TenantID) (map[store.TenantID]string, error)
	FindTenants(ctx context.Context, f store.TenantFilter, idOrName string) (found, others []string, err error)
}

// Error says what is not found, without the name that was sent.
type Error string

func (e Error) Error() string { return string(e) }

// most is the maximum number of names or ids that an error offers.
const most = 3

// FindKey returns the id of the key with an id or a name, of those that the filter selects. The ledger may have keys that
// the store does not, so a name that is like no other is returned as it is.
func FindKey(ctx context.Context, keys Keys, f store.KeyFilter, idOrName string) (string, error) {
	if idOrName == "" {
		return "", nil
	}
	found, others, err := keys.FindKeys(ctx, f, idOrName)
	if err != nil {
		return "", err
	}
	if valid := slices.DeleteFunc(slices.Clone(found), func(k store.KeyName) bool { return k.Revoked }); len(valid) > 0 {
		found = valid
	}
	ids := make([]string, len(found))
	for i := range ids {
		ids[i] = found[i].ID
	}
	return choose("key", idOrName, ids, others)
}

// FindTenant returns the id of the organisation or team with an id or a name, of those that the filter selects. Like a key,
// a name that is like no other is returned as it is.
func FindTenant(ctx context.Context, tenants Tenants, f store.TenantFilter, idOrName string) (string, error) {
	if idOrName == "" {
		return "", nil
	}
	found, others, err := tenants.FindTenants(ctx, f, idOrName)
	if err != nil {
		return "", err
	}
	kind := "organisation"
	if f.TeamsOf != "" {
		kind = "team"
	}
	return choose(kind, idOrName, found, others)
}

// choose returns the id that was found, or what was asked for if nothing is like it.
func choose(kind, idOrName string, found, others []string) (string, error) {
	switch len(found) {
	case 0:
		if near := similar.Names(idOrName, others, most); len(near) > 0 {
			return "", Error("no " + kind + " has this id or name; did you mean " + orList(near) + "?")
		}
		return idOrName, nil
	case 1:
		return found[0], nil
	}
	return "", Error(fmt.Sprintf("%d %ss have this name; send the id of one, such as %s", len(found), kind, orList(found[:min(len(found), most)])))
}

// orList returns names as "a", "b" or "c".
func orList(names []string) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = fmt.Sprintf("%q", plain.Line(n))
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " or " + texts[last]
	}
	return texts[0]
}

// Of is whose names an item shows. The pointers say where the names are; nil: it does not show that one.
type Of struct {
	Key, Org, Team             string
	KeyName, OrgName, TeamName *string
}

// Reader reads names. They are an addition to what a caller reads: without the store there are none.
type Reader struct {
	Keys    Keys
	Tenants Tenants
	Logger  *slog.Logger
}

// Set sets the names in a list. Those that the store does not have are empty.
func Set[T any](ctx context.Context, r Reader, list []T, of func(*T) Of) {
	var keys []string
	var tenants []store.TenantID
	seen := map[store.TenantID]bool{{}: true}
	seenKeys := map[string]bool{"": true}
	for i := range list {
		o := of(&list[i])
		if o.KeyName != nil && !seenKeys[o.Key] {
			seenKeys[o.Key] = true
			keys = append(keys, o.Key)
		}
		for _, t := range []store.TenantID{{Org: o.Org}, {Org: o.Org, Team: o.Team}} {
			if o.OrgName != nil && t.Org != "" && !seen[t] {
				seen[t] = true
				tenants = append(tenants, t)
			}
		}
	}
	ofKeys, ofTenants := r.read(ctx, keys, tenants)
	for i := range list {
		o := of(&list[i])
		if o.KeyName != nil {
			*o.KeyName = ofKeys[o.Key]
		}
		if o.OrgName != nil {
			*o.OrgName = ofTenants[store.TenantID{Org: o.Org}]
		}
		if o.TeamName != nil && o.Team != "" {
			*o.TeamName = ofTenants[store.TenantID{Org: o.Org, Team: o.Team}]
		}
	}
}

// read returns the names of keys, and of organisations and teams.
func (r Reader) read(ctx context.Context, keys []string, tenants []store.TenantID) (ofKeys map[string]string, ofTenants map[store.TenantID]string) {
	var err error
	if len(keys) > 0 {
		if ofKeys, err = r.Keys.KeyNames(ctx, keys); err != nil {
			r.Logger.WarnContext(ctx, "names of keys not available", "error", err)
		}
	}
	if len(tenants) > 0 {
		if ofTenants, err = r.Tenants.TenantNames(ctx, tenants); err != nil {
			r.Logger.WarnContext(ctx, "names of organisations and teams not available", "error", err)
		}
	}
	return ofKeys, ofTenants
}
