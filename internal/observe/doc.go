// Package observe tells the operator what the gateway does: one log line, one
// set of Prometheus samples and, where a collector is configured, one
// OpenTelemetry trace for each exchange.
//
// An exchange is opened with [Observer.Begin], gathers facts in the fields of
// [Exchange] and is counted exactly once by [Exchange.End], which belongs in a
// defer:
//
//	ctx, x := observer.Begin(r.Context(), id, "chat_completions", "openai-chat", r.Header)
//	defer x.End()
//
// What it promises: no prompt, no body, no header value and no credential is
// written at any level, and nothing that an upstream wrote in prose; the number
// of label sets is bounded whatever clients and upstreams send; without a
// collector tracing costs a nil check.
package observe
