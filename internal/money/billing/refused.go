package billing

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	budgets "github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// explainBudget returns the error message of a request that a budget does not cover. It says what the request may cost,
// what is left, whose account it is, when enough is free again, and which output limit would let it pass.
func (a *Account) explainBudget(why *quota.Refusal, targets []Target) string {
	text := notCovered(why) + "this request: the request may cost " + a.reserved.String()
	if why.RetryAfter == 0 && a.reserved > why.Budget.Amount {
		text += ", more than the whole budget"
	}
	if rest := a.left(a.refusedBudget(why)); rest.known {
		about := "about "
		if rest.exact {
			about = ""
		}
		text += ", and " + about + rest.amount.String() + " of " + why.Budget.Amount.String() + " is left for " + ownerByName(why.Account, a.request.KeyName)
	}
	if n := a.passingOutput(targets); n > 0 {
		text += "; it would pass with an output limit (max_tokens) of " + strconv.FormatInt(n, 10) + " at most"
	}
	switch {
	case why.RetryAfter > 0:
		text += "; enough is free again in " + why.RetryAfter.Round(time.Second).String()
	case why.Budget.Window == 0 && a.reserved <= why.Budget.Amount:
		text += "; what is spent does not return"
	}
	return text + "; " + budgetAdvice
}

// left is what is left of a budget.
type left struct {
	amount usage.Money
	known  bool // false while Redis is lost
	exact  bool // amount is without what open requests have reserved
}

// left returns what is left of the budget of an account, as of the last reservation. It does not wait for Redis. So
// with Redis it does not know the reservations of open requests.
func (a *Account) left(of quota.Account) left {
	q, org := a.books.Quotas, a.request.Org
	if a.books.CountsInMemory {
		c, err := q.Count(context.Background(), org, of.ID) // it does not wait
		return left{max(0, of.Limit.Budget-c.Spent-c.Reserved), err == nil, true}
	}
	u, known := q.Used(org, of.ID)
	return left{max(0, of.Limit.Budget-u.Spent), known, false}
}

// refusedBudget returns the account of the budget that a refusal names.
func (a *Account) refusedBudget(why *quota.Refusal) (of quota.Account) {
	for _, of = range onlyBudgets(a.request.Accounts) {
		if budgets.Owner(of.ID) == why.Account && of.Limit.Budget == why.Budget.Amount && of.Limit.Window == why.Budget.Window {
			break
		}
	}
	return of
}

// passingOutput returns the highest output limit, for each choice, with which all budgets cover the request; 0: none does,
// or the request has no output.
func (a *Account) passingOutput(targets []Target) int64 {
	least := usage.Money(-1)
	for _, account := range onlyBudgets(a.request.Accounts) {
		rest := a.left(account)
		if !rest.known {
			return 0
		}
		if least < 0 || rest.amount < least {
			least = rest.amount
		}
	}
	e, choices := a.estimate, max(1, a.estimate.Choices)
	fits := func(limit int64) bool {
		e.MaxOutput = limit * choices
		price, known := a.books.maxPrice(&a.request, e, targets)
		return known && a.request.maxCost(&price, e) <= least
	}
	low, high := int64(0), a.estimate.MaxOutput/choices // low fits, or is 0; high does not
	for low+1 < high {
		if middle := low + (high-low)/2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// ownerByName returns how an error names an account to people. Ids of teams and organisations are names.
func ownerByName(account, keyName string) string {
	kind, id, _ := strings.Cut(account, ":")
	switch kind {
	case "team":
		org, team, _ := strings.Cut(id, "/")
		return "the team '" + team + "' of '" + org + "'"
	case "org":
		return "the organisation '" + id + "'"
	}
	if keyName == "" || strings.HasPrefix(id, "person_") {
		return owner(account)
	}
	return "the key '" + keyName + "'"
}

// ownerOfBudget names the first account that has a budget.
func ownerOfBudget(r *Request) string {
	for _, account := range onlyBudgets(r.Accounts) {
		return ownerByName(budgets.Owner(account.ID), r.KeyName)
	}
	return "this key"
}
