package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Guard protects another API of the admin port as this one: it keeps pages out, authenticates
// operators, and writes changes and denials to the audit log.
type Guard struct{ s *server }

// NewGuard returns a guard. It needs Operators, Audit and Loopback of the options.
func NewGuard(o Options) *Guard { return &Guard{newServer(o)} }

// Protect refuses web pages of other origins.
func (g *Guard) Protect(next http.Handler) http.Handler { return g.s.protect(next) }

// Call is a request of an operator who may make it.
type Call struct {
	c   call
	Org string // that the operator is bound to; empty: none
}

// Authorize authenticates the operator of an action of an API that the roles may do.
func (g *Guard) Authorize(r *http.Request, api, action string, roles ...access.Role) (*Call, *openapi.Problem) {
	c := call{address: access.Peer(r), route: action}
	if p := g.s.identify(r, &c, api); p != nil {
		return nil, p
	}
	if !slices.Contains(roles, c.operator.Role) {
		return nil, g.s.deny(r, &c, forbidden("role_not_allowed", "the role %q may not do this; use a key with one of the roles %s", c.operator.Role, joinRoles(roles)))
	}
	return &Call{c, boundTo(c.operator)}, nil
}

// Change writes an audit entry and then makes a change. If the change fails, a second entry says so.
func (g *Guard) Change(ctx context.Context, c *Call, object string, before, after any, do func(context.Context) error) error {
	return g.s.change(ctx, &c.c, change{object: object, org: c.Org, before: before, after: after}, do)
}

// Record writes an audit entry about what a change has caused.
func (g *Guard) Record(ctx context.Context, c *Call, action, object, org string) {
	e := g.s.entry(&c.c, allowed)
	e.Action, e.Object, e.Org = action, object, org
	g.s.writeAudit(ctx, e)
}

// Fail returns the problem of an error, and logs the cause of one that is not the operator's.
func (g *Guard) Fail(ctx context.Context, action string, err error) *openapi.Problem {
	p := asProblem(err)
	if p.Cause != nil {
		g.s.Logger.WarnContext(ctx, "admin request failed", "route", action, "status", p.Status, "error", p.Cause)
	}
	return p
}

// Unavailable is the problem of a store that cannot be used.
func Unavailable(cause error) *openapi.Problem { return unavailable(keyStoreName, cause) }
