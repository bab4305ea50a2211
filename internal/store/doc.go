// Package store keeps what survives a restart: organisations, teams and keys, the ledger of all
// requests with its sums, and the audit log. It uses a SQLite file for one node and PostgreSQL for
// several, with one schema and one set of queries.
//
// A request waits for it only when it brings a key that this node has not seen. Every call ends
// with its context, and after five seconds at most, even if the server is frozen. It stores no
// secrets of providers or clients.
package store
