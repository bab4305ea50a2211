// Package balance says in which order a model's targets are tried.
//
//	order := balance.Order(policy, choices, session)
//
// The first is the balanced pick, the others are what to fall back on. The policies
// are order (failover), weight, least-busy and fastest (the better of two at
// random), and cache.
//
// The cache policy sends a conversation to the target that has its beginning in its
// prompt cache. It knows which one without having been told: bounded-load
// rendezvous hashing of what stays the same over a conversation's turns, which
// [AppendPrefixes] takes from the request's raw JSON. Gateways that share nothing so
// come to the same answer, and when a target comes or goes only its own
// conversations move. A target that has a quarter more than its share of the
// requests in flight is passed over until it has less.
//
// [History] counts the cached tokens that come back, and which system prompts are
// so common that every target has them.
//
// Nothing here does I/O, reads a clock or starts a goroutine. DESIGN.md has the
// reasons and the figures.
package balance
