package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// limits is the limit of an account. Zero means no limit.
type limits struct {
	Requests    int64  `json:"requests_per_minute" doc:"Requests per minute. 0: no limit."`
	Tokens      int64  `json:"tokens_per_minute" doc:"Tokens of all classes per minute. 0: no limit."`
	Concurrency int64  `json:"concurrency" doc:"Open requests, on all nodes together. 0: no limit."`
	Budget      string `json:"budget" doc:"Dollars per window, as an exact decimal. 0: no limit."`
	Window      int64  `json:"window_seconds" doc:"The budget's window. 0: all time."`
}

func viewLimits(l quota.Limit) limits {
	return limits{
		Requests: l.Requests, Tokens: l.Tokens, Concurrency: l.Concurrency,
		Budget: l.Budget.Decimal(), Window: int64(l.Window / time.Second),
	}
}

// limitsChange describes a change of limits. Absent members stay as they are.
type limitsChange struct {
	Requests    *int64  `json:"requests_per_minute,omitempty" minimum:"0" maximum:"1000000000" doc:"Requests per minute. 0: no limit."`
	Tokens      *int64  `json:"tokens_per_minute,omitempty" minimum:"0" maximum:"1000000000000" doc:"Tokens of all classes per minute. 0: no limit."`
	Concurrency *int64  `json:"concurrency,omitempty" minimum:"0" maximum:"1000000" doc:"Open requests, on all nodes together. 0: no limit."`
	Budget      *string `json:"budget,omitempty" maxLength:"20" pattern:"^[0-9]+([.][0-9]{1,9})?$" doc:"Dollars per window, as an exact decimal. 0: no limit."`
	Window      *int64  `json:"window_seconds,omitempty" minimum:"0" maximum:"316224000" doc:"The budget's window. 0: all time."`
}

// permit returns a problem if the change sets a budget and the operator may not do that.
func (c *limitsChange) permit(operator access.Record) error {
	if c == nil || c.Budget == nil && c.Window == nil || slices.Contains(budgetRoles, operator.Role) {
		return nil
	}
	return forbidden("budget_role", "the role %s may not change a budget; ask an operator with the role owner, admin or billing", operator.Role)
}

// apply changes a limit.
func (c *limitsChange) apply(l *quota.Limit) error {
	if c == nil {
		return nil
	}
	set(&l.Requests, c.Requests)
	set(&l.Tokens, c.Tokens)
	set(&l.Concurrency, c.Concurrency)
	if c.Window != nil {
		l.Window = time.Duration(*c.Window) * time.Second
	}
	if c.Budget == nil {
		return nil
	}
	return applyBudget(l, *c.Budget, "body.limits.budget")
}

func applyBudget(l *quota.Limit, text, location string) error {
	m, err := usage.ParseMoney(text)
	if err != nil {
		return invalid(location, "%v", err)
	}
	l.Budget = m
	return nil
}

// set copies a value that was sent.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// budgetBody sets a budget.
type budgetBody struct {
	Budget string `json:"budget" maxLength:"20" pattern:"^[0-9]+([.][0-9]{1,9})?$" doc:"Dollars per window, as an exact decimal. 0: no limit."`
	Window int64  `json:"window_seconds" minimum:"0" maximum:"316224000" doc:"The budget's window. 0: all time."`
}

func (b budgetBody) apply(l *quota.Limit) error {
	l.Window = time.Duration(b.Window) * time.Second
	return applyBudget(l, b.Budget, "body.budget")
}

// useView is an account's current use of its limits.
type useView struct {
	Account     string `json:"account" doc:"key:ID, team:ORG/TEAM or org:ORG."`
	Limits      limits `json:"limits"`
	Requests    int64  `json:"requests" doc:"In the last minute."`
	Tokens      int64  `json:"tokens" doc:"In the last minute."`
	Concurrency int64  `json:"concurrency" doc:"Open requests."`
	Spent       string `json:"spent" doc:"Dollars in the budget's window."`
}

// limitUse returns an account's current use of its limits.
func (s *server) limitUse(ctx context.Context, org, account string, l quota.Limit) (*useView, error) {
	if s.Limits == nil {
		return nil, problem(http.StatusNotImplemented, "not_kept", "this gateway does not report the current use; query the usage of the ledger instead")
	}
	u, err := s.Limits.Use(ctx, org, quota.Account{ID: account, Limit: l})
	if err != nil {
		return nil, unavailable("the store of limits", err)
	}
	return new(useView{
		Account: account, Limits: viewLimits(l), Requests: u.Requests, Tokens: u.Tokens,
		Concurrency: u.Concurrency, Spent: u.Spent.Decimal(),
	}), nil
}
