// Package billing reserves, counts and charges what requests cost.
//
// The life of a request's Account:
//
//   - Reserve takes the most that the request can cost from each account of its caller
//     and opens its row in the ledger. A request whose price is unknown is rejected if
//     the caller has a budget.
//   - While the response is sent, its tokens are counted: CountEvent, CountText and
//     CountBody before they are written, BeforeWrite and AfterWrite around each write.
//   - Extend and ExtendHeld reserve more where the client set no output limit and the
//     response grows beyond what was reserved. They fail when the budget is used up.
//   - Charge closes the row, before the client can know that the response is complete.
//     It charges the usage that the provider reported, or else the tokens that were
//     counted here, and refunds the rest of the reservation.
//
// The client pays for every part of the response that it received, at the price of the
// target that produced it, and not for failed attempts or hedges that lost.
// A nil *Account bills nothing.
package billing
