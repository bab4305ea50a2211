// Package access authenticates callers and decides what they may use.
//
// There are two kinds of keys. [Keys] are those of the configuration file, for small set-ups; if
// none are configured, everybody who reaches the loopback interface is a caller. A [Directory]
// holds the keys of a store in memory. It queries the store only for a key that it does not have or
// whose secret does not match, polls for changes every second, and keeps serving known keys while
// the store is down. If it cannot decide, the response is 503; it is 401 only if the key is known
// to be wrong.
//
// # Timing
//
// A wrong secret, a secret with a correct prefix and an id that does not exist take the same steps:
// one HMAC per pepper, and comparisons in constant time. The first wrong key with an id in a second
// waits for the store, whether or not the id exists. The store's response time may reveal whether
// an id exists, which is not a secret: ids are in lists and logs. The limit on wrong keys stops
// those who try many.
//
// # Caching
//
// Verified secrets are not cached. The HMAC takes a third of a microsecond, and a cache would have
// to be invalidated by revocation and rotation.
package access
