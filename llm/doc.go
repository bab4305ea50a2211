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
// stream, [Explode] builds a stream from a Response, and [Validator] checks that a
// stream follows the rules that encoders rely on.
package llm
