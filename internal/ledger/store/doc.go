// Package store keeps what survives a restart: organisations, teams, keys and people, the ledger of
// all requests with its sums, alerts, sign-ins, and the audit log. Package db has the database: a
// SQLite file for one node or PostgreSQL for several, with one schema and one set of queries.
//
// A request waits for it only when it brings a key that this node has not seen. Every call ends
// with its context, and after five seconds at most, even if the server is frozen. It stores no
// secrets of providers or clients.
package store
