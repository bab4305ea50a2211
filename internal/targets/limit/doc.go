// Package limit protects the gateway and its upstreams from overload.
//
// A request takes a slot of the process, which also counts for its key, and then a
// slot of its target. If no slot is free, it waits in a bounded queue, or is refused
// with a Retry-After. A request that would probably wait too long is refused at once.
//
//	permit, refusal := limiter.Enter(ctx, caller)
//	defer permit.Release()
//	slot, ok := limiter.Target(id, max).TryEnter(caller)  // else try the next target
//	slot, refusal = target.Enter(ctx, caller)             // waits in the queue
//	slot.FirstToken(d)
//	slot.Release()
//
// # Priorities
//
// In every queue Critical goes before Normal and Normal before Sheddable. A fifth of
// the process's slots is reserved for Critical. A full queue refuses the newest
// request of a lower class to make room. Within a class the keys take turns, and one
// key may hold at most twice the free part of the queue, so a noisy key is refused
// long before the others. Sheddable waits at most a quarter of Wait.
//
// The slots are shared too. Once a second key has appeared, a key with half of the slots
// or more must leave some slots free for others: an eighth of the number that it has, and
// at least one. Two keys together can still take all slots.
//
// # The length of a queue
//
// The expected wait is the largest of three estimates: the number of requests ahead
// times how long slots are held, the pace at which the class is served, and the time
// since the class was last served. A request is refused unless it may wait for twice
// the expected wait. A queue that has not been empty for as long as Wait is crowded, and
// its requests wait at most a quarter of Wait: a burst may fill a queue, but a permanent
// queue only delays everyone. In the simulation of this package's tests, at five times
// the capacity and with clients that leave after three seconds, the whole of Wait gave
// 30 good responses a second of 50 possible, half of it 41, and a short queue 50.
// Serving the newest request first helps a queue that is too long; it gained nothing
// for a short one.
//
// # Adaptive limits
//
// A target's limit can follow its time to first token. The rate of first tokens and their
// delay give the number of requests that wait at the target. If tokens take a fifth
// longer than normal and more than one request waits, the limit falls by the number of
// waiting requests. It rises while it is used and no request waits, and falls by half a
// slot for each request that the target rejects. It stays between 4 and the configured
// limit.
//
// If a lower limit yields fewer tokens, and none earlier, the old limit is restored: the
// tokens are late for another reason. The normal time to first token is learned in the
// first seconds, while few requests are open, and from a probe that lowers the limit by a
// fifth after every thirty windows of use.
//
// A server may get slower with every request, long before it is full. Its adaptive limit
// stays where it is a fifth slower than when idle; give such a server a fixed limit.
// Several gateways that share a target cannot tell each other's requests from work of the
// target. In the simulation two gateways kept a target busy, with at least a third of it
// each, but together had up to four times as many requests open as it works on.
//
// One key alone cannot lower the limit of the others, neither with long prompts nor with
// requests that the target rejects. If several keys are served, the limit falls only if
// requests of at least two of them are late, or rejected.
//
// # Memory
//
// Near the memory limit the classes are refused one after the other: Sheddable from
// 85 %, Normal from 90 %, Critical from 95 %, each until usage is 5 % lower.
//
// # Why not a library
//
// We measured the adaptive limiter of failsafe-go v0.9.8. Its queue is in order of
// arrival: priorities decide which request is rejected, not which is next, and keys do
// not take turns. A permit's latency is the time until its release, so a permit can
// either hold a slot for a whole stream or measure the first token. If permits are
// released at the first token, streams accumulate: 17 good responses a second of 50 in the
// same simulation. If permits are held to the end, they measure the length of responses:
// 40 good responses a second where lengths differ by half; this package gives 44. Dropping
// a permit does not lower the limit of failsafe-go.
package limit
