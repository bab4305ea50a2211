// Package llm is the neutral model: what a request to a language model, its
// answer and its stream mean, in no vendor's form. Each wire protocol has a codec
// that reads its own form into these values and writes it from them.
//
// The model is a union, not what the protocols have in common: turns of blocks in
// order, with system text anywhere; tool arguments and schemas as the JSON text
// that they came as; refusal and reasoning apart from text; several choices;
// sealed data (signatures, encrypted reasoning) with its origin; and, on every
// node, the members of the source that no field stands for. What an encoder
// cannot express it says in a [Report].
//
// A stream is a sequence of [Event] values. [Collector] makes a [Response] of
// one, [Explode] makes one of a Response, and [Validator] holds a stream to the
// rules that codecs rely on.
package llm
