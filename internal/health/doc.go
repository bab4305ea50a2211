// Package health is the live state of the upstreams: which of them may be asked
// now, how busy they are and how fast they began to answer lately. The request
// path reports to it and asks it. It outlives changes of the configuration.
//
// A [Fleet] holds all state of a process. When a configuration is loaded, each
// of its targets is fetched with [Fleet.Target], and those it no longer has are
// forgotten with [Fleet.Keep]:
//
//	t := fleet.Target("openai/gpt-5@api.openai.com", "openai", "openai#3f2a")
//	t.Begin()
//	defer t.End()
//	…
//	t.Succeeded(sinceSent)                                  // or
//	t.Failed(health.Failure{Kind: health.Limited, Header: resp.Header})
//
// Each request reports once, when its first token came, its answer was whole or
// something went wrong; a client that went away is no report. An answer that
// blames the client (400, 404, 422) is a success of the upstream, with a first
// token of 0. [Usable] says which targets of a pool may be asked.
//
// # What takes a target out
//
//   - Ejection, by Envoy's rules for passive outliers: five failures in a row
//     ([Unreachable], [Broken], [Timeout], [Server]) eject the target for 30 s
//     times n, at most 300 s, ±20 %. n grows by one with each ejection. After an
//     ejection ordinary traffic tries the target; from its first success on, n
//     falls by one every 10 s. At most half of a pool is left out for this, and
//     never its last target.
//   - Cool-down of a quota group, that is of all targets with that group. A
//     [Limited] answer sets it aside for as long as Retry-After or the reset of
//     an exhausted limit says, at most 10 minutes; where neither is told, for 1 s,
//     doubling to 60 s while it repeats, ±20 %. A good answer whose headers say
//     that nothing remains does so too, for at most 60 s ([Target.Learn]).
//     A [Server] failure with Retry-After sets only its own target aside.
//   - Refusal. [Credential] (401) sets aside all targets with that credential,
//     [Denied] (403) only the target that was refused: a key that may not use one
//     model must not cost the others. It lasts 60 s, then one request probes
//     while the rest wait for its outcome; each refusal doubles it, to 10
//     minutes. A success ends it at once. A changed key is another credential,
//     and what is still in flight with the old one reports against the old one.
//   - A failing check of an engine ([Target.Watch]), until a good one. A good
//     check also ends an ejection.
//
// Limited, Credential and Denied say nothing about the health of a machine: they
// neither count as outliers nor break a row of failures.
//
// # Retries
//
// [Fleet.Budget] bounds what retries add to the load of a provider, [Backoff]
// spaces them.
//
// # What it promises
//
// Begin, End, Succeeded and State wait for nobody and allocate nothing while all
// is well. Times are measured on the monotonic clock, so that a corrected wall
// clock ejects and frees nobody. What an upstream says about times is bounded.
// Memory is bounded per target. [Fleet.Close] ends every goroutine.
package health
