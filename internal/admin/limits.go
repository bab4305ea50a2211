package admin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// limits is what an account may use, as it is answered. Zero is no limit.
type limits struct {
	Requests    int64  `json:"requests_per_minute" doc:"Requests in a minute. 0: no limit."`
	Tokens      int64  `json:"tokens_per_minute" doc:"Tokens of all classes in a minute. 0: no limit."`
	Concurrency int64  `json:"concurrency" doc:"Open requests, on all nodes together. 0: no limit."`
	Budget      string `json:"budget" doc:"Dollars in a window, as an exact decimal. 0: no limit."`
	Window      int64  `json:"window_seconds" doc:"The budget's window. 0: all time."`
}

func viewLimits(l quota.Limit) limits {
	return limits{
		Requests: l.Requests, Tokens: l.Tokens, Concurrency: l.Concurrency,
		Budget: dollars(l.Budget), Window: int64(l.Window / time.Second),
	}
}

// dollars is an amount as decimal text.
func dollars(m usage.Money) string { return strings.Replace(m.String(), "$", "", 1) }

// limitsChange is what may be said of limits. What is left out stays as it is.
type limitsChange struct {
	Requests    *int64  `json:"requests_per_minute,omitempty" minimum:"0" maximum:"1000000000" doc:"Requests in a minute. 0: no limit."`
	Tokens      *int64  `json:"tokens_per_minute,omitempty" minimum:"0" maximum:"1000000000000" doc:"Tokens of all classes in a minute. 0: no limit."`
	Concurrency *int64  `json:"concurrency,omitempty" minimum:"0" maximum:"1000000" doc:"Open requests, on all nodes together. 0: no limit."`
	Budget      *string `json:"budget,omitempty" maxLength:"20" pattern:"^[0-9]+([.][0-9]{1,9})?$" doc:"Dollars in a window, as an exact decimal. 0: no limit."`
	Window      *int64  `json:"window_seconds,omitempty" minimum:"0" maximum:"316224000" doc:"The budget's window. 0: all time."`
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

// set changes what was sent.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// budgetBody sets a budget and nothing else.
type budgetBody struct {
	Budget string `json:"budget" maxLength:"20" pattern:"^[0-9]+([.][0-9]{1,9})?$" doc:"Dollars in a window, as an exact decimal. 0: no limit."`
	Window int64  `json:"window_seconds" minimum:"0" maximum:"316224000" doc:"The budget's window. 0: all time."`
}

func (b budgetBody) apply(l *quota.Limit) error {
	l.Window = time.Duration(b.Window) * time.Second
	return applyBudget(l, b.Budget, "body.budget")
}

// useView is what an account has used of what it may.
type useView struct {
	Account     string `json:"account" doc:"key:ID, team:ORG/TEAM or org:ORG."`
	Limits      limits `json:"limits"`
	Requests    int64  `json:"requests" doc:"In the last minute."`
	Tokens      int64  `json:"tokens" doc:"In the last minute."`
	Concurrency int64  `json:"concurrency" doc:"Open now."`
	Spent       string `json:"spent" doc:"Dollars in the budget's window."`
}

func (s *server) use(ctx context.Context, org, account string, l quota.Limit) (*answer[useView], error) {
	if s.Limits == nil {
		return nil, problem(http.StatusNotImplemented, "not_kept", "this gateway does not tell what is used at the moment; ask for the usage of the ledger instead")
	}
	u, err := s.Limits.Use(ctx, org, quota.Account{ID: account, Limit: l})
	if err != nil {
		return nil, unavailable("the keeper of limits", err)
	}
	return answered(useView{
		Account: account, Limits: viewLimits(l), Requests: u.Requests, Tokens: u.Tokens,
		Concurrency: u.Concurrency, Spent: dollars(u.Spent),
	}), nil
}
