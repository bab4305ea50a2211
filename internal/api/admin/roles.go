package admin

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// scope says how much of the gateway a route shows to an operator of one organisation.
type scope string

const (
	selfScope    scope = "self"         // only the operator's own key
	orgScope     scope = "organisation" // what belongs to the organisation; the rest does not exist
	noScope      scope = "none"         // all: the route concerns no data of the gateway
	gatewayScope scope = "gateway"      // nothing: the route concerns the whole gateway
)

// rule lists the roles that may use a route.
type rule struct {
	roles []access.Role
	scope scope
}

// allRoles is every role, in the order of the table in docs/admin-api.md.
var allRoles = []access.Role{access.Owner, access.Admin, access.Billing, access.Auditor, access.KeyManager}

// Groups of roles that several rules share.
var (
	budgetRoles = []access.Role{access.Owner, access.Admin, access.Billing}
	keyRoles    = []access.Role{access.Owner, access.Admin, access.KeyManager}
	auditRoles  = []access.Role{access.Owner, access.Admin, access.Auditor}
	usageRoles  = []access.Role{access.Owner, access.Admin, access.Billing, access.Auditor}
	adminRoles  = []access.Role{access.Owner, access.Admin}
)

// rules is the table of roles, by operation. A route without a row is refused to everybody.
//
// Two rules depend on the object instead: operators' keys are visible to owners and auditors only,
// and only owners change them (call.canSee, call.canChange).
var rules = map[string]rule{
	"whoami":         {allRoles, selfScope},
	"create-session": {allRoles, selfScope},

	"list-keys":      {allRoles, orgScope},
	"get-key":        {allRoles, orgScope},
	"get-key-limits": {allRoles, orgScope},
	"create-key":     {keyRoles, orgScope},
	"update-key":     {keyRoles, orgScope},
	"revoke-key":     {keyRoles, orgScope},
	"rotate-key":     {keyRoles, orgScope},
	"set-key-budget": {budgetRoles, orgScope},
	// Who may create a key may also use one.
	"run-request": {keyRoles, orgScope},

	"list-orgs":      {allRoles, orgScope},
	"get-org":        {allRoles, orgScope},
	"get-org-limits": {allRoles, orgScope},
	"create-org":     {adminRoles, gatewayScope},
	"update-org":     {adminRoles, gatewayScope},
	// An organisation's own operators may not set its budget.
	"set-org-budget": {budgetRoles, gatewayScope},

	"list-teams":      {allRoles, orgScope},
	"get-team":        {allRoles, orgScope},
	"get-team-limits": {allRoles, orgScope},
	"create-team":     {keyRoles, orgScope},
	"update-team":     {keyRoles, orgScope},
	"set-team-budget": {budgetRoles, orgScope},

	"get-usage":     {usageRoles, orgScope},
	"list-requests": {usageRoles, orgScope},
	"list-refusals": {usageRoles, orgScope},
	"get-request":   {usageRoles, orgScope},

	"list-targets":  {auditRoles, gatewayScope},
	"list-models":   {auditRoles, gatewayScope},
	"explain":       {auditRoles, gatewayScope},
	"get-config":    {auditRoles, gatewayScope},
	"reload-config": {adminRoles, gatewayScope},
	"list-nodes":    {auditRoles, gatewayScope},
	"compare-node":  {auditRoles, gatewayScope},
	"translate":     {allRoles, noScope},
	"list-audit":    {auditRoles, orgScope},
	"verify-audit":  {auditRoles, gatewayScope},
}

// LocalOwner returns the operator of requests over the socket for commands on the gateway's machine: an owner,
// in the audit log as local: and the user id. Only the gateway's user and root can open the socket, and both
// can also read the store and the pepper.
func LocalOwner(uid string) access.Record {
	return access.Record{ID: "local:" + uid, Role: access.Owner}
}

// boundTo returns the organisation that an operator is bound to, empty if none. Owners
// and admins are never bound.
func boundTo(op access.Record) string {
	if op.Role == access.Owner || op.Role == access.Admin {
		return ""
	}
	return op.Org
}

// Permit returns nil if an operator may use a route, or else the problem.
func Permit(op access.Record, route string) *openapi.Problem {
	rule, ok := rules[route]
	switch {
	case !ok:
		return forbidden("role_not_allowed", "this route has no row in the table of roles, so it is refused; report this as a bug of the gateway")
	case !slices.Contains(rule.roles, op.Role):
		return forbidden("role_not_allowed", "the role %q may not do this; use a key with one of the roles %s", op.Role, joinRoles(rule.roles))
	case rule.scope == gatewayScope && boundTo(op) != "":
		return forbidden("organisation_not_allowed", "this key is bound to the organisation %q, and this route concerns the whole gateway; use a key without an organisation", op.Org)
	}
	return nil
}

// canSee reports whether a key is visible to the operator.
func (c *call) canSee(k access.Record) bool {
	if !c.canSeeOrg(k.Org) {
		return false
	}
	return k.Role == "" || k.ID == c.operator.ID || c.canSeeOperators()
}

// canSeeOperators reports whether operators' keys are visible to the operator.
func (c *call) canSeeOperators() bool {
	return c.operator.Role == access.Owner || c.operator.Role == access.Auditor
}

// canChange reports whether the operator may create or change a key.
func (c *call) canChange(k access.Record) bool {
	return k.Role == "" || c.operator.Role == access.Owner
}

// canSeeOrg reports whether an organisation is visible to the operator.
func (c *call) canSeeOrg(org string) bool {
	own := boundTo(c.operator)
	return own == "" || own == org
}
