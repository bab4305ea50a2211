// Package limit protects the gateway and what is behind it from more work than
// they can do.
//
// A request takes a place in the process, which also counts for its key, and then
// one at its target. Where there is no place it waits in a bounded queue, or is
// refused with a time to come back. Refusals are made early: a request that is
// expected to wait in vain is told so when it comes.
//
//	place, refusal := limiter.Enter(ctx, caller)
//	defer place.Release()
//	slot, ok := limiter.Target(id, max).TryEnter(class)   // then the next target
//	slot, refusal = target.Enter(ctx, caller)             // then wait for one
//	slot.FirstToken(d)
//	slot.Release()
//
// # Who goes first
//
// In every queue Critical goes before Normal and Normal before Sheddable. A fifth
// of the process's places is for Critical alone. A full queue refuses the newest
// of a lesser class to make room. Within a class keys take turns, and one key may
// hold only twice as much of the queue as is free, so a noisy key finds the queue
// full long before the others do. Sheddable waits a quarter of Wait at most.
//
// # How long a queue may be
//
// The expected wait is the number of requests before this one times how long
// places are held, or the pace at which the class is served, or for how long
// nobody was: whichever is most. Whoever cannot have twice that is refused.
// A queue that was not empty for as long as Wait is crowded and kept to a quarter
// of Wait: a burst may fill a queue, but a queue that stays only makes everybody
// late. In the simulation of this package's tests, at five times the capacity and
// with clients that leave after three seconds, the whole of Wait gave 30 good
// answers a second of 50 possible, half of it 41, and a short queue 50. To serve
// the newest first, as others do in overload, mends a queue that is too long; it
// added nothing to a short one.
//
// # Adaptive limits
//
// A target's limit can follow its time to first token. How many requests wait at
// the target is known from how much later than usual tokens come, and how many a
// second: where tokens are a fifth late and more than one waits, the limit goes
// down by those who do. It goes up while it is used and nobody waits, and down by
// half a place for each request that the target could not take. It stays between
// 4 places and its configured limit.
//
// A lower limit that brings fewer tokens and none earlier is taken back: they are
// late for another reason. What is usual is learned in the first seconds, from
// when few requests are open, and from a limit that is lowered by a fifth after
// every thirty windows (of a second or more) in which it was used.
//
// A server that is slower with every request it has, long before it is full, is
// held where it is a fifth slower than when quiet; give such a one a fixed limit.
// Gateways that share a target each take the others' requests for its work: in the
// simulation two of them kept it busy and had a third of it each at least, but had
// up to four times as many open as it works on.
//
// # Memory
//
// Near the memory limit the classes are refused one after the other: Sheddable
// from 85 %, Normal from 90 %, Critical from 95 %, until it is 5 % less.
//
// # Why not a library
//
// failsafe-go was read (v0.9.8) and its adaptive limiter measured. Its queue is
// one line in order of arrival: priorities decide who is rejected, not who is
// next, and there are no turns between keys. A permit's latency is the time until
// it is given back, so it can either be a place for a whole stream or measure the
// first token. Released at the first token it lets streams pile up: 17 good
// answers a second of 50 in the same simulation. Held to the end it measures how
// long answers are, and gave 40 where they differ by half; the one here gives 44.
// Dropping a permit does not lower its limit.
package limit
