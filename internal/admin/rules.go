package admin

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// scope says what an operator who is held to an organisation can reach by a route.
type scope string

const (
	self    scope = "self"         // only the operator itself is looked at
	tenant  scope = "organisation" // what belongs to the operator's organisation; the rest does not exist
	gateway scope = "gateway"      // nothing: what is looked at or changed concerns all
)

// rule is who may use a route.
type rule struct {
	roles []access.Role
	scope scope
}

// roles is every role there is, in the order of the table in docs/admin-api.md.
var roles = []access.Role{access.Owner, access.Admin, access.Billing, access.Auditor, access.KeyManager}

// Groups of roles that occur more than once below.
var (
	payers    = []access.Role{access.Owner, access.Admin, access.Billing}
	keepers   = []access.Role{access.Owner, access.Admin, access.KeyManager}
	watchers  = []access.Role{access.Owner, access.Admin, access.Auditor}
	reckoners = []access.Role{access.Owner, access.Admin, access.Billing, access.Auditor}
	chiefs    = []access.Role{access.Owner, access.Admin}
)

// rules says who may use each route, by the name of its operation. A route without a
// row is refused to everybody.
//
// Two things are not rows, because they hang on the object and not on the route: keys
// of operators are seen by owners and auditors only and changed by owners only
// (call.sees, call.changes).
var rules = map[string]rule{
	"whoami": {roles, self},

	"list-keys":      {roles, tenant},
	"get-key":        {roles, tenant},
	"get-key-limits": {roles, tenant},
	"create-key":     {keepers, tenant},
	"update-key":     {keepers, tenant},
	"revoke-key":     {keepers, tenant},
	"rotate-key":     {keepers, tenant},
	"set-key-budget": {payers, tenant},

	"list-orgs":      {roles, tenant},
	"get-org":        {roles, tenant},
	"get-org-limits": {roles, tenant},
	"create-org":     {chiefs, gateway},
	"update-org":     {chiefs, gateway},
	// What an organisation may spend is not for its own people to say.
	"set-org-budget": {payers, gateway},

	"list-teams":      {roles, tenant},
	"get-team":        {roles, tenant},
	"get-team-limits": {roles, tenant},
	"create-team":     {keepers, tenant},
	"update-team":     {keepers, tenant},
	"set-team-budget": {payers, tenant},

	"get-usage":     {reckoners, tenant},
	"list-requests": {reckoners, tenant},
	"get-request":   {reckoners, tenant},

	"list-targets":  {watchers, gateway},
	"get-config":    {watchers, gateway},
	"reload-config": {chiefs, gateway},
	"list-audit":    {watchers, tenant},
	"verify-audit":  {watchers, gateway},
}

// held is the organisation that an operator is held to; empty: none. Owners and
// admins are above organisations, whatever their key says.
func held(op access.Record) string {
	if op.Role == access.Owner || op.Role == access.Admin {
		return ""
	}
	return op.Org
}

// permit says whether an operator may use a route at all, and if not, why.
func permit(op access.Record, route string) *Problem {
	rule, ok := rules[route]
	switch {
	case !ok:
		return forbidden("role_not_allowed", "nobody may use this route: it has no row in the table of roles. Report this as a fault of the gateway")
	case !slices.Contains(rule.roles, op.Role):
		return forbidden("role_not_allowed", "the role of this key, %q, may not do this; use a key with one of the roles %s", op.Role, list(rule.roles))
	case rule.scope == gateway && held(op) != "":
		return forbidden("organisation_not_allowed", "this key is held to the organisation %q and this concerns the whole gateway; use a key that names no organisation", op.Org)
	}
	return nil
}

// sees reports whether a key exists for the operator.
func (c *call) sees(k access.Record) bool {
	if !c.within(k.Org) {
		return false
	}
	return k.Role == "" || k.ID == c.operator.ID || c.seesOperators()
}

// seesOperators reports whether keys of operators exist for the operator.
func (c *call) seesOperators() bool {
	return c.operator.Role == access.Owner || c.operator.Role == access.Auditor
}

// changes reports whether the operator may make or change a key, besides seeing it.
func (c *call) changes(k access.Record) bool { return k.Role == "" || c.operator.Role == access.Owner }

// within reports whether an organisation exists for the operator.
func (c *call) within(org string) bool {
	own := held(c.operator)
	return own == "" || own == org
}
