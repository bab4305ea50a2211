// Package health tracks which upstream targets may be tried, how many requests they
// have in flight and how fast their first tokens come. The state outlives a reload
// of the configuration.
//
// A [Fleet] holds the state of a process. For each configuration the caller gets its
// targets with [Fleet.Target] and removes all others with [Fleet.Keep]:
//
//	t := fleet.Target("openai/gpt-5@api.openai.com", "openai", "openai#3f2a")
//	t.Begin()
//	defer t.End()
//	…
//	t.Succeeded(timeToFirstToken)                           // or
//	t.Failed(health.Failure{Kind: health.Limited, Header: resp.Header})
//
// A request reports its outcome once. A request that the client cancelled reports
// nothing. A response that blames the client (400, 422, a 404 that is not about the model)
// is a success with a time to first token of 0. [Usable] selects the targets of a pool
// that may be tried.
//
// # Why a target is not ready
//
//   - It is ejected, by Envoy's rules for outliers. Five failures in a row
//     ([Unreachable], [Broken], [Timeout], [Server]) eject the target for n times 30 s,
//     at most 300 s, ±20 %. So do failures of half of its recent requests. Each ejection
//     increments n; every 10 s after the first success decrement it. At most half of a
//     pool is ejected, and never its last target.
//   - Its quota group cools down. A [Limited] response starts a cool-down for the time
//     in Retry-After, or until the reset of an exhausted limit, at most 10 minutes. If the
//     response has neither, the cool-down is 1 s, doubling to 60 s with each repetition,
//     ±20 %. A successful response whose headers report an exhausted limit starts a
//     cool-down of at most 60 s ([Target.Learn]). A [Server] failure with Retry-After
//     pauses only its target.
//   - Its credential was refused. [Credential] (401) concerns all targets with that
//     credential. After 60 s one request is sent as a probe, and other requests use other
//     targets until its outcome is known. Each further refusal doubles the time, to 10
//     minutes. A success ends the refusal. A changed key is another credential.
//   - Its access was denied, or its model is missing. [Denied] (403) and [Missing] (404)
//     work like a refusal, but concern only their target. Because a client can provoke
//     such a response, five in a row are needed, for at least two client keys. One client
//     key is enough if no other has used the target within the last hour.
//   - Its health check fails ([Target.Watch]), until the next successful check. A
//     successful check also ends an ejection.
//
// Limited, Credential, Denied and Missing say nothing about the health of a machine: they
// neither count as failures in a row nor interrupt a row of failures.
//
// # Retries
//
// [Fleet.Budget] bounds the load that retries add to a provider. [Backoff] returns the
// time between retries.
//
// # Properties
//
// Begin, End, Succeeded and State do not block, and do not allocate for a healthy
// target. Times come from the monotonic clock. Times from upstreams are bounded.
// Memory is bounded per target. [Fleet.Close] stops every goroutine.
package health
