// Package limit protects the gateway and its upstreams from overload.
//
// A request takes a slot of the process, which also counts for its key, and then a
// slot of its target. If there is none it waits in a bounded queue, or is refused
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
// The slots are shared too: once a second key has appeared, a key with half of the slots
// or more leaves an eighth of what it has to others, and at least one. Two keys together
// can still take all.
//
// # The length of a queue
//
// The expected wait is the largest of three estimates: the number of requests ahead
// times how long slots are held, the pace at which the class is served, and the time
// since the class was last served. A request that may not wait twice as long is
// refused. A queue that has not been empty for as long as Wait is crowded, and its
// requests wait at most a quarter of Wait: a burst may fill a queue, but a permanent
// queue only delays everyone. In the simulation of this package's tests, at five times
// the capacity and with clients that leave after three seconds, the whole of Wait gave
// 30 good responses a second of 50 possible, half of it 41, and a short queue 50.
// Serving the newest request first helps a queue that is too long; it gained nothing
// for a short one.
//
// # Adaptive limits
//
// A target's limit can follow its time to first token. The number of requests that
// wait at the target follows from the rate of first tokens and how late they are: if
// tokens are a fifth late and more than one request waits, the limit falls by the
// number of waiting requests. It rises while it is used and no request waits, and
// falls by half a slot for each request that the target rejects. It stays between 4
// and the configured limit.
//
// A lower limit that yields fewer tokens, and none earlier, is reverted: the tokens
// are late for another reason. The normal time to first token is learned in the first
// seconds, while few requests are open, and from a probe that lowers the limit by a
// fifth after every thirty windows of use.
//
// A server that gets slower with every request, long before it is full, is held where
// it is a fifth slower than when idle; give it a fixed limit. Gateways that share a
// target mistake each other's requests for its work: in the simulation two of them
// kept it busy with at least a third of it each, but had up to four times as many
// requests open as it works on.
//
// No key alone lowers the limit of others, by long prompts or by requests that the target
// rejects: if several keys are served, two of them have to be late, or rejected.
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
// either hold a slot for a whole stream or measure the first token. Released at the
// first token it lets streams accumulate: 17 good responses a second of 50 in the same
// simulation. Held to the end it measures the length of responses, and gave 40 where
// these differ by half; this package gives 44. Dropping a permit does not lower its
// limit.
package limit
