// Package translate lets a client of one dialect talk to an upstream of another. It has no network: it turns a client's
// request into the upstream's, and the upstream's response, stream or error into the client's.
//
//	t, err := translate.New(translate.Options{Client: protocol.Anthropic, Upstream: protocol.OpenAIChat, Model: "gpt-6-luna"})
//	x, err := t.Request(body)                          // send x.Body to x.Path with x.Header
//	answer, err := x.Response(status, header, body)    // of a response in one body
//	stream := x.Stream(upstreamBody)                   // of a stream: an io.ReadCloser in the client's dialect
//
// What the upstream's dialect cannot express is in [Exchange.Losses]; what the client's dialect cannot express of the
// response is in [Response.Losses] or [Stream.Losses]. Errors are of type [*llm.Error], and [Translator.Error] writes
// them as the client's SDK expects them.
//
// A conversation may need what its client does not send back: signed reasoning, and the responses to which a request
// refers by id. Exchanges that share a [Memory] have it.
//
// The package starts no goroutine and has no global state. A [Translator] may be used by several goroutines, an
// [Exchange] by one. It is the gateway's own translation, without its routing, limits and accounts.
package translate
