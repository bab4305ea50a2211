package agentapi

import (
	"context"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Limits of the queries of usage requests.
const (
	queryTimeout = 2 * time.Second // with the wait for a slot
	querySlots   = 4               // requests that query at the same time
)

// spending reads what callers have spent.
type spending struct{ slots chan struct{} }

// serve sends what the caller has spent: of its budgets, or without budgets in the current day, week
// and month.
func (q *spending) serve(e *endpoint, c *call) *llm.Error {
	if c.caller.Key == "" || e.Books.Quotas == nil || e.Ledger == nil {
		return &llm.Error{Kind: llm.NotFound, Code: "no_usage", Message: "the gateway does not record what you use; its operator can give you a key of its store"}
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), queryTimeout)
	defer cancel()
	s, err := q.read(ctx, e, c)
	if err != nil {
		return &llm.Error{Kind: llm.Overloaded, Code: "usage_unavailable", RetryAfter: time.Second, Cause: err,
			Message: "the gateway cannot count what you have used at present; try again"}
	}
	write(c.w, http.StatusOK, "application/json", e.dialect.Agent.EncodeSpending(s))
	return nil
}

func (q *spending) read(ctx context.Context, e *endpoint, c *call) (s codec.Spending, err error) {
	select {
	case q.slots <- struct{}{}:
		defer func() { <-q.slots }()
	case <-ctx.Done():
		return s, ctx.Err()
	}
	if s.Budgets, err = e.Books.Budgets(ctx, c.id, c.caller.Org, c.caller.Accounts); err == nil && len(s.Budgets) == 0 {
		err = spent(ctx, e.Ledger, "key:"+c.caller.Key, &s)
	}
	return s, err
}

// spent sets what an account has spent in the current day, week and month, with one query.
func spent(ctx context.Context, ledger quota.Ledger, account string, s *codec.Spending) error {
	year, month, day := time.Now().UTC().Date()
	today := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7)
	got, err := ledger.Spent(ctx, account, today, monday, today.AddDate(0, 0, 1-day))
	if err == nil {
		s.Day, s.Week, s.Month = int64(got.Since[0]), int64(got.Since[1]), int64(got.Since[2])
	}
	return err
}
