// Package balance decides in which order a model's targets are tried.
//
//	order := balance.Order(policy, choices, session)
//
// The first index is the balanced choice; the others are fallbacks.
//
// The cache policy sends a conversation to the target that has its beginning in the
// prompt cache. It needs no shared state: it uses bounded-load rendezvous hashing of
// the part of a request that stays the same over a conversation ([AppendPrefixes]).
// So several gateways choose the same target, and when a target is added or removed
// only its own conversations move. A target with a quarter more than its share of the
// requests in flight is avoided.
//
// [History] counts the cached tokens that targets report, and the system prompts that
// are so common that every target caches them.
//
// The package does no I/O, reads no clock and starts no goroutine. DESIGN.md has the
// reasons and the measurements.
package balance
