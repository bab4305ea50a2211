// Package spool keeps the log of a process on disk: what every request uses, through a crash of the
// process, until the store has it. A drain moves the rows to the store, once per request.
//
// A request waits only for two file writes: one before the client sees the first byte of a
// response, one before it sees the last.
package spool
