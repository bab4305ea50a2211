// Chaos is the reliability board: it runs the built gateway as a process of its
// own, puts an upstream behind it that fails in every way that we know of, and
// judges what clients see.
//
// It is a black box's view. Nothing of the gateway is imported, and what is whole,
// what is an error and what is a cut answer in each dialect is decided here, from
// the vendors' descriptions, so that a mistake in a codec cannot hide itself.
//
//	chaos --bin bin/isogloss            everything, about ten minutes
//	chaos --bin bin/isogloss --short    what fits into three minutes
//	chaos --bin bin/isogloss --only 'board/.*/anthropic→'
//	chaos --bin bin/isogloss --soak 30m the soak and nothing else
//
// The upstream is one listener with raw sockets. The first part of a request's
// path names the target, so that one listener plays thousands of them, and each
// has a script and a count of its own. The last line of every run is
// "N passed, M failed".
package main
