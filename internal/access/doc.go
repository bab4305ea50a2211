// Package access knows who the caller is and what they may use.
//
// A caller holds one of two sorts of key. [Keys] are those of the configuration
// file, for small set-ups; with none configured, everyone who can reach the
// loopback interface is a caller. A [Directory] has the keys of a store, in memory:
// it asks the store only about a key that it cannot find right, follows the store's
// changes every second, and serves what it knows while the store is away. That is
// why a store that is slow or dead never makes a good key a wrong one: what cannot
// be known is answered with 503, and 401 only where the key is known to be wrong.
//
// # What timing tells
//
// A wrong secret, a secret that begins rightly and an id that is known not to exist
// take the same steps: one HMAC for each pepper and comparisons in constant time.
// The first wrong key with an id in a second waits for the store, whether the id
// exists or not; the store may take longer for one than for the other. That would tell
// whether an id exists, which is no secret: ids are in lists and logs. Who tries many
// is stopped by the limit on wrong keys.
//
// # What is not cached
//
// Secrets that were found right are not remembered. The HMAC costs a third of a
// microsecond, so there is nothing to win, and nothing that a revocation or a
// rotation would have to reach.
package access
