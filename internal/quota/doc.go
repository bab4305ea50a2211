// Package quota holds keys, teams and organisations to what they may use: requests
// and tokens a minute, open requests, and money in a window of time.
//
// A request reserves the most that it can use before anybody is asked, in one step
// that either takes from all of its accounts or from none, and settles what it has
// really used at its end. That is why a budget is never overdrawn, however many
// requests come at once. On one node all of it is in memory; several nodes share a
// Redis. Where that is lost, each node goes on with its share of what was left.
//
//	hold, refusal := keeper.Reserve(ctx, quota.Ask{ID: id, Org: org, Accounts: accounts, Tokens: most, Cost: dearest})
//	defer hold.Settle(tokens, cost) // once; what was really used
//
// DESIGN.md has the rules, their errors, and what happens when something is lost.
package quota
