package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// limits is the limit of an account. Zero means no limit.
type limits struct {
	Requests    int64        `json:"requests_per_minute" doc:"Requests per minute. 0: no limit."`
	Tokens      int64        `json:"tokens_per_minute" doc:"Tokens of all classes per minute. 0: no limit."`
	Concurrency int64        `json:"concurrency" doc:"Open requests, on all nodes together. 0: no limit."`
	Budget      string       `json:"budget" doc:"Dollars per window, as an exact decimal. 0: no limit."`
	Window      int64        `json:"window_seconds" doc:"The budget's window. 0: all time."`
	Budgets     []budgetBody `json:"budgets,omitempty" doc:"All budgets, if there are several. The first is budget and window_seconds."`
}

func viewLimits(l quota.Limit) limits {
	out := limits{
		Requests: l.Requests, Tokens: l.Tokens, Concurrency: l.Concurrency,
		Budget: l.Budget.Decimal(), Window: int64(l.Window / time.Second),
	}
	if all := l.Budgets(); len(all) > 1 {
		for _, b := range all {
			out.Budgets = append(out.Budgets, budgetBody{b.Amount.Decimal(), int64(b.Window / time.Second)})
		}
	}
	return out
}

// limitsChange describes a change of limits. Absent members stay as they are.
type limitsChange struct {
	Requests    *int64        `json:"requests_per_minute,omitzero" minimum:"0" maximum:"1000000000" doc:"Requests per minute. 0: no limit."`
	Tokens      *int64        `json:"tokens_per_minute,omitzero" minimum:"0" maximum:"1000000000000" doc:"Tokens of all classes per minute. 0: no limit."`
	Concurrency *int64        `json:"concurrency,omitzero" minimum:"0" maximum:"1000000" doc:"Open requests, on all nodes together. 0: no limit."`
	Budget      *string       `json:"budget,omitzero" maxLength:"20" pattern:"^[0-9]+([.][0-9]{1,9})?$" doc:"Dollars per window, as an exact decimal. 0: no limit."`
	Window      *int64        `json:"window_seconds,omitzero" minimum:"0" maximum:"316224000" doc:"The budget's window. 0: all time."`
	Budgets     *[]budgetBody `json:"budgets,omitzero" maxItems:"4" doc:"All budgets, instead of budget and window_seconds, which change only the first."`
}

// permit returns a problem if the change sets a budget and the operator may not do that.
func (c *limitsChange) permit(operator access.Record) error {
	if c == nil || c.Budget == nil && c.Window == nil && c.Budgets == nil || slices.Contains(budgetRoles, operator.Role) {
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
	return applyBudgets(l, c.Budget, c.Window, c.Budgets, "body.limits")
}

// applyBudgets changes the first budget of a limit, or all of them.
func applyBudgets(l *quota.Limit, amount *string, window *int64, all *[]budgetBody, location string) error {
	if all != nil {
		if amount != nil || window != nil {
			return invalid(location+".budgets", "it replaces all budgets; leave budget and window_seconds out")
		}
		return setBudgets(l, *all, location+".budgets")
	}
	if window != nil {
		l.Window = time.Duration(*window) * time.Second
	}
	if amount != nil {
		m, err := usage.ParseMoney(*amount)
		if err != nil {
			return invalid(location+".budget", "%v", err)
		}
		l.Budget = m
	}
	if l.More == "" || amount == nil && window == nil {
		return nil
	}
	if err := l.SetBudgets(l.Budgets()); err != nil { // without a first budget the second is the first
		return invalid(location+".budget", "%v", err)
	}
	return nil
}

// setBudgets replaces all budgets of a limit.
func setBudgets(l *quota.Limit, from []budgetBody, location string) error {
	all := make([]budget.Budget, len(from))
	for i, b := range from {
		m, err := usage.ParseMoney(b.Budget)
		if err != nil {
			return invalid(location, "%v", err)
		}
		all[i] = budget.Budget{Amount: m, Window: time.Duration(b.Window) * time.Second}
	}
	if err := l.SetBudgets(all); err != nil {
		return invalid(location, "%v", err)
	}
	return nil
}

// set copies a value that was sent.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// budgetBody is a budget.
type budgetBody struct {
	Budget string `json:"budget" maxLength:"20" pattern:"^[0-9]+([.][0-9]{1,9})?$" doc:"Dollars per window, as an exact decimal."`
	Window int64  `json:"window_seconds" minimum:"0" maximum:"316224000" doc:"The budget's window. 0: all time."`
}

// budgetsBody sets the first budget, or all.
type budgetsBody struct {
	Budget  *string       `json:"budget,omitzero" maxLength:"20" pattern:"^[0-9]+([.][0-9]{1,9})?$" doc:"Dollars per window, as an exact decimal. 0: no limit."`
	Window  *int64        `json:"window_seconds,omitzero" minimum:"0" maximum:"316224000" doc:"The budget's window. 0: all time. Required with budget."`
	Budgets *[]budgetBody `json:"budgets,omitzero" maxItems:"4" doc:"All budgets, instead of budget and window_seconds, which change only the first."`
}

func (b budgetsBody) apply(l *quota.Limit) error {
	if b.Budgets == nil && (b.Budget == nil || b.Window == nil) {
		return invalid("body", "expected budget and window_seconds, or budgets")
	}
	return applyBudgets(l, b.Budget, b.Window, b.Budgets, "body")
}

// useView is an account's current use of its limits.
type useView struct {
	Account     string      `json:"account" doc:"key:ID, team:ORG/TEAM or org:ORG."`
	Limits      limits      `json:"limits"`
	Requests    int64       `json:"requests" doc:"In the last minute."`
	Tokens      int64       `json:"tokens" doc:"In the last minute."`
	Concurrency int64       `json:"concurrency" doc:"Open requests."`
	Spent       string      `json:"spent" doc:"Dollars in the budget's window."`
	Budgets     []budgetUse `json:"budgets,omitempty" doc:"All budgets, if there are several."`
}

// budgetUse is what is spent of a budget.
type budgetUse struct {
	Budget string `json:"budget" doc:"Dollars per window."`
	Window int64  `json:"window_seconds" doc:"0: all time."`
	Spent  string `json:"spent" doc:"Dollars in the window."`
}

// limitUse returns an account's current use of its limits.
func (s *server) limitUse(ctx context.Context, org, account string, l quota.Limit) (*useView, error) {
	if s.Limits == nil {
		return nil, openapi.NewProblem(http.StatusNotImplemented, "not_kept", "this gateway does not report the current use; query the usage of the ledger instead")
	}
	out := useView{Account: account, Limits: viewLimits(l)}
	accounts := l.Accounts(nil, account)
	if len(accounts) == 0 {
		accounts = []quota.Account{{ID: account}}
	}
	for i, a := range accounts {
		u, err := s.Limits.Use(ctx, org, a)
		if err != nil {
			return nil, unavailable("the store of limits", err)
		}
		if i == 0 {
			out.Requests, out.Tokens, out.Concurrency, out.Spent = u.Requests, u.Tokens, u.Concurrency, u.Spent.Decimal()
		}
		if len(accounts) > 1 {
			out.Budgets = append(out.Budgets, budgetUse{a.Limit.Budget.Decimal(), int64(a.Limit.Window / time.Second), u.Spent.Decimal()})
		}
	}
	return &out, nil
}
