// Package usage knows what answers have cost. A price book turns tokens into money,
// a spool on disk keeps what is known of every request through the death of the
// process, and a drain carries it from there to the store, once for each request.
//
// Nothing here is on the way of a request but two writes to a file: one before the
// client sees the first byte of an answer, one before it sees the last.
package usage
