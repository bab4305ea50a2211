// Package cache stores complete responses, for two uses.
//
// Cache is an exact-match response cache: a request whose bytes were seen before, from
// the same tenant, gets the earlier response. Only requests for which the client wants
// that are cached, see codec.CacheRule. A cache whose store fails is a miss and never
// an error.
//
// Once implements the Idempotency-Key header: a request that is sent again under the
// same key does not run again. The client gets the response of the first run, or 409
// while that is still running. Once guarantees at most one run, so a request does not
// run if the state of its key cannot be read.
//
// Both store their values in memory on one node and in Redis on several.
package cache
