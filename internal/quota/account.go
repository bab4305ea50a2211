package quota

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// Limit is what an account may use. A zero field is no limit.
type Limit struct {
	Requests    int64         // in a minute
	Tokens      int64         // in a minute, all classes together
	Concurrency int64         // open requests, on all nodes together
	Budget      usage.Money   // in a window
	Window      time.Duration // of the budget; 0 is all time
}

// IsZero reports whether nothing is limited.
func (l Limit) IsZero() bool { return l == Limit{} }

// Account is who is held to a limit: "key:ID", "team:ORG/TEAM" or "org:ORG".
type Account struct {
	ID    string
	Limit Limit
}

// Ask is what a request wants to reserve.
type Ask struct {
	ID       string    // of the request
	Org      string    // all accounts of an organisation are kept together
	Accounts []Account // those that have a limit, the key's first
	Tokens   int64     // the most that it can use
	Cost     usage.Money
	Part     bool // it is for more of a request that was let in, and no further request
}

// Refusal is why a request has to wait or cannot be had at all.
type Refusal struct {
	Account    string
	Reason     Reason
	RetryAfter time.Duration // 0 where waiting does not help
}

// Reason is the limit that was reached.
type Reason string

// The reasons.
const (
	Requests    Reason = "requests"
	Tokens      Reason = "tokens"
	Concurrency Reason = "concurrency"
	Budget      Reason = "budget"
)
