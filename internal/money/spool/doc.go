// Package spool keeps the usage of every request on disk until the store has it, also if the process
// crashes. Each process has a log of its own. A drain moves the rows to the store, once per request.
//
// A request waits only for two file writes: one before the client sees the first byte of a
// response, one before it sees the last.
package spool
