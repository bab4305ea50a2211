package quota

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// Limit holds the limits of an account. A zero field means no limit.
type Limit struct {
	Requests    int64         // per minute
	Tokens      int64         // per minute, all token classes together
	Concurrency int64         // open requests, on all nodes together
	Budget      usage.Money   // per Window
	Window      time.Duration // time window of the budget; 0 means all time
}

// IsZero reports whether l limits nothing.
func (l Limit) IsZero() bool { return l == Limit{} }

// Account is a key, team or organisation with its limit. Its ID is "key:ID", "team:ORG/TEAM" or
// "org:ORG".
type Account struct {
	ID    string
	Limit Limit
}

// Request describes a reservation.
type Request struct {
	ID        string      // id of the client's request
	Org       string      // organisation of all Accounts
	Accounts  []Account   // accounts that have a limit, the key's first; at most three
	Tokens    int64       // maximum number of tokens
	Cost      usage.Money // maximum cost
	Extension bool        // extends the reservation of an admitted request; counts as no further request
}

// Refusal describes the limit that rejects a request.
type Refusal struct {
	Account    string
	Reason     Reason
	RetryAfter time.Duration // 0: retrying does not help
}

// Reason is the kind of limit that was reached.
type Reason string

// The limits that can reject a request.
const (
	Requests    Reason = "requests"
	Tokens      Reason = "tokens"
	Concurrency Reason = "concurrency"
	Budget      Reason = "budget"
)
