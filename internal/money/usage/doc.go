// Package usage defines what requests cost: the row of a request in the ledger, the prices that turn
// tokens into money, and who pays for what.
package usage
