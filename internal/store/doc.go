// Package store keeps what outlives a restart: organisations, teams and keys, the
// ledger of all requests with its sums, and the audit log. It is one SQLite file for
// one node and one PostgreSQL for several, with one schema and one set of queries.
//
// No request waits for it but the first one of a key that this node has not seen.
// Every call ends with its context, and after five seconds in any case, also when the
// server is frozen. The secrets of providers and of clients are not kept here at all.
package store
