package billing

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Limits returns what a caller's accounts have left, for the headers of a response. If several
// accounts have a limit, the one with the least left counts, and of budgets the one of which the
// largest part is spent. Limits does not wait for Redis: it returns the state as of the last
// reservation, and nothing while Redis is lost. err is the error that the client gets, or nil: beside
// responses without an error, only the one that refuses a request for its budget reports the budget.
func (b *Books) Limits(org string, accounts []quota.Account, now time.Time, err *llm.Error) (l codec.Limits) {
	for i := range accounts {
		limit := &accounts[i].Limit
		u, ok := b.Quotas.Used(org, accounts[i].ID)
		if !ok {
			return codec.Limits{}
		}
		l.Requests = least(l.Requests, limit.Requests, u.Requests, u.RequestsReset)
		l.Tokens = least(l.Tokens, limit.Tokens, u.Tokens, u.TokensReset)
		if budget := newBudget(limit, u, now); budget.Limit > 0 && (l.Budget.Limit == 0 || budget.Used() > l.Budget.Used()) {
			l.Budget = budget
		}
	}
	refused := err != nil && err.Code == llm.BudgetExceeded && !err.Relayed
	if err != nil && !refused {
		l.Budget = codec.Budget{}
	}
	l.Budget.Refused = refused
	return l
}

// least returns the limit of which less is left: l, or another one.
func least(l codec.RateLimit, limit int64, used float64, reset time.Duration) codec.RateLimit {
	left := max(0, int64(float64(limit)-used))
	if limit == 0 || l.Limit > 0 && l.Left <= left {
		return l
	}
	return codec.RateLimit{Limit: limit, Left: left, Reset: reset}
}

func newBudget(l *quota.Limit, u quota.Use, now time.Time) codec.Budget {
	return codec.Budget{Limit: int64(l.Budget), Spent: int64(u.Spent), Window: l.Window, Reset: l.Reset(now)}
}

// Budgets returns the budgets of a caller with what all nodes have spent of them. It reserves nothing
// of them under an id, which brings this node up to date with one query of Redis, and one of the
// ledger for an account that was not used for a while. Reserve limits the time of both. It fails
// while Redis is lost.
func (b *Books) Budgets(ctx context.Context, id, org string, accounts []quota.Account) ([]codec.Budget, error) {
	accounts = onlyBudgets(accounts)
	hold, _ := b.Quotas.Reserve(ctx, quota.Request{ID: id, Org: org, Accounts: accounts, Extension: true})
	hold.Settle(0, 0, usage.Totals{})
	now := time.Now()
	budgets := make([]codec.Budget, len(accounts))
	for i := range accounts {
		u, ok := b.Quotas.Used(org, accounts[i].ID)
		if !ok {
			return nil, errors.New("redis is lost")
		}
		budgets[i] = newBudget(&accounts[i].Limit, u, now)
	}
	return budgets, nil
}
