// Package cache keeps whole answers, for two uses.
//
// Cache is an exact-match response cache: a request whose bytes were seen before,
// from the same tenant, is answered with what was said then. Only requests for which
// that is what the client wants are kept, see Deterministic. A cache that cannot be
// asked is a miss and never an error.
//
// Once is what stands behind the Idempotency-Key header: a request that is sent again
// under the same key is not run again. It is answered with what came of the first
// one, or told that the first is still running. It promises at most one run, so where
// nothing can be known about a key the request does not run.
//
// Both keep their values in memory on one node and in Redis on several.
package cache
