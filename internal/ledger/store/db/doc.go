// Package db is the database of a store: a SQLite file for one node or PostgreSQL for several, with
// one set of queries. It opens connections, bounds and retries calls, runs migrations, and builds
// statements. It knows no tables but those of its migrations.
//
// Every call ends with its context, and after five seconds at most, even if the server is frozen.
package db
