// Package quota enforces the limits of keys, teams and organisations: requests and tokens per
// minute, concurrent requests, and a budget per time window.
//
// Before a request is sent upstream, Reserve takes the maximum that the request can use from all of
// its accounts or from none. When the request ends, Settle returns the reservation and charges the
// actual use. Concurrent requests therefore cannot overdraw a budget. A single node counts in
// memory; several nodes share a Redis. While Redis is lost, each node continues with its share of
// what was left.
//
//	hold, refusal := limiter.Reserve(ctx, quota.Request{ID: id, Org: org, Accounts: accounts, Tokens: maxTokens, Cost: maxCost})
//	defer hold.Settle(tokens, cost, totals) // actual use; only the first call counts
//
// DESIGN.md describes the algorithms, their errors and the behaviour during outages.
package quota
