// Package admin serves the operators' API: keys, teams, organisations, limits, usage, targets,
// configuration and the audit log. It is served on its own port under /api/v1/. The OpenAPI
// document at /api/openapi.json is generated from the routes and the structs that they read and
// write.
//
// Every route but that document needs an operator's key, also on loopback. roles.go has the table
// of roles: a route without a row is refused to everybody. For an operator who is bound to an
// organisation, other organisations do not exist.
//
// A secret is returned once, by the request that creates it. Every change is written to the audit
// log first; if that fails, the change is refused.
package admin
