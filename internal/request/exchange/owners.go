package exchange

import (
	"context"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Owners knows which tenant owns the objects that vendors keep, by their ids.
type Owners interface {
	// Check returns the first reference that a tenant may not use. With refuse that
	// includes those whose owner is not known.
	Check(ctx context.Context, tenant string, refs []codec.Reference, refuse bool) *codec.Reference

	// Add records the owner of ids.
	Add(owner string, ids ...string)
}

// CheckOwners rejects a call with the id of an object of another tenant. The error is the same
// as for an id that does not exist.
func (c *Call) CheckOwners(ctx context.Context, owners Owners, targets []route.Target) *llm.Error {
	state, same, refuse := c.Dialect.State, false, false
	for i := range targets {
		if p := targets[i].Provider; p.Protocol == c.Dialect.Name {
			same = true
			refuse = refuse || c.Settings.RefusesUnknown(p)
		}
	}
	if !same || state == nil || c.Tenant == "" {
		return nil
	}
	if refs := state.References(&c.Body.Index); len(refs) > 0 {
		if bad := owners.Check(ctx, c.Tenant, refs, refuse); bad != nil {
			return state.Unknown(*bad)
		}
	}
	c.keeps = state.Keeps == nil || state.Keeps(&c.Body.Index)
	return nil
}

// AddOwner records that the caller owns the response and what the vendor keeps of it. It must
// be called before the client can refer to them.
func (c *Call) AddOwner(owners Owners, t *Target, s protocol.Summary) {
	if c.keeps && (s.ID != "" || len(s.Kept) > 0) && t.Dialect == c.Dialect {
		c.keeps = false
		if c.Dialect.State.Keeps != nil {
			owners.Add(c.Tenant, s.ID)
		}
		owners.Add(c.Tenant, s.Kept...)
	}
}
