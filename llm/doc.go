// Package llm defines a vendor-neutral model of requests to language models, their
// responses and their streams. The codec of each wire protocol decodes into these
// types and encodes from them.
//
// The model is the union of the protocols, not their common subset. Turns contain
// blocks in order, and system text may appear anywhere. Tool arguments and schemas
// keep their JSON text. Refusals and reasoning are separate from text. A response
// may have several choices. Sealed data (signatures, encrypted reasoning) records
// the protocol that made it. Every level keeps the members of the source for which
// there is no field. An encoder records in a [Report] what it cannot express.
//
// A stream is a sequence of [Event] values. [Collector] builds a [Response] from a
// stream, [Explode] builds a stream from a Response. Each stream follows these rules:
//
//   - Start is the first event, except for pings and a failure; End or Failure is the
//     last;
//   - the blocks of a choice start in the order of their indexes, end once, and get
//     deltas only while they are open;
//   - a choice ends once, after its blocks; End comes after all choices have ended;
//   - the start of a tool call has the call's id and name;
//   - token counts do not decrease.
package llm
