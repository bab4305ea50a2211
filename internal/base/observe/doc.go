// Package observe writes one log line, one set of Prometheus samples and, if a
// collector is configured, one OpenTelemetry trace for each exchange.
//
// [Observer.Begin] starts an exchange. The request path sets the fields of [Exchange],
// and [Exchange.End] counts it once:
//
//	ctx, x := observer.Begin(r.Context(), id, "chat_completions", "openai-chat", r.Header)
//	defer x.End()
//
// No prompt, body, header value, credential or free text of an upstream is written at
// any level. The number of label sets is bounded, whatever clients and upstreams send.
// Without a collector tracing costs a nil check.
package observe
