// Package admin is the operators' API: keys, teams, organisations and what they may
// use, what was used, how the targets are, the configuration and the audit log. It is
// served on a port of its own, under /api/v1/, and described by the OpenAPI document
// at /api/openapi.json, which is made from the structs and the routes that serve.
//
// Nothing but that document is to be had without an operator's key, on loopback
// either. Who may do what is one table, in rules.go: a route that is not in it is
// refused to everybody. What belongs to another organisation does not exist for an
// operator who is held to one.
//
// A secret leaves the gateway once, in the answer that makes it. Every change is
// written to the audit log before it is made; where that cannot be done, the change is
// refused.
package admin
