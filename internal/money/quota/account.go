package quota

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Limit holds the limits of an account. A zero field means no limit.
type Limit struct {
	Requests    int64         // per minute
	Tokens      int64         // per minute, all token classes together
	Concurrency int64         // open requests, on all nodes together
	Budget      usage.Money   // per Window
	Window      time.Duration // time window of the budget; 0 means all time
	More        budget.List   // further budgets; empty in an Account
}

// IsZero reports whether l limits nothing.
func (l Limit) IsZero() bool { return l == Limit{} }

// Budgets returns all budgets of a limit.
func (l Limit) Budgets() (all []budget.Budget) {
	if l.Budget > 0 {
		all = append(all, budget.Budget{Amount: l.Budget, Window: l.Window})
	}
	more, _ := l.More.Budgets() // the store has checked the list
	return append(all, more...)
}

// SetBudgets replaces all budgets of a limit.
func (l *Limit) SetBudgets(all []budget.Budget) error {
	if _, err := budget.NewList(all); err != nil {
		return err
	}
	l.Budget, l.Window, l.More = 0, 0, ""
	if len(all) > 0 {
		l.Budget, l.Window = all[0].Amount, all[0].Window
		l.More, _ = budget.NewList(all[1:])
	}
	return nil
}

// Accounts appends the accounts of an owner to a list. The first account has the whole limit except
// the further budgets. Each further budget has an account of its own. A zero limit adds no account.
func (l Limit) Accounts(all []Account, owner string) []Account {
	more, _ := l.More.Budgets()
	l.More = ""
	if !l.IsZero() {
		all = append(all, Account{owner, l})
	}
	for i, b := range more {
		all = append(all, Account{budget.Account(owner, i+2), Limit{Budget: b.Amount, Window: b.Window}})
	}
	return all
}

// Account is a counter with limits for a key, a team or an organisation. Its ID is "key:ID",
// "team:ORG/TEAM" or "org:ORG". The account of a further budget has the ID that budget.Account returns.
type Account struct {
	ID    string
	Limit Limit
}

// Request describes a reservation.
type Request struct {
	ID        string      // id of the client's request
	Org       string      // organisation of all Accounts
	Accounts  []Account   // accounts that have a limit, the key's first
	Tokens    int64       // maximum number of tokens
	Cost      usage.Money // maximum cost
	Extension bool        // extends the reservation of an admitted request, and does not count as another request
}

// Refusal describes the limit that rejects a request.
type Refusal struct {
	Account    string // id of the owner
	Reason     Reason
	Budget     budget.Budget // the exceeded budget, if Reason is Budget
	RetryAfter time.Duration // 0: retrying does not help
}

// refuse returns a refusal by the account. With a negative wait, retrying does not help.
func (a *Account) refuse(reason Reason, wait time.Duration) *Refusal {
	r := &Refusal{Account: budget.Owner(a.ID), Reason: reason, RetryAfter: max(wait, 0)}
	if reason == Budget {
		r.Budget = budget.Budget{Amount: a.Limit.Budget, Window: a.Limit.Window}
	}
	return r
}

// refusalOf converts a reply of the reserve script to a refusal.
func refusalOf(req *Request, got script.Reply) *Refusal {
	reasons := [...]Reason{1: Requests, 2: Tokens, 3: Concurrency, 4: Budget}
	return req.Accounts[got.Account].refuse(reasons[got.Reason], time.Duration(got.Wait)*time.Millisecond)
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
