package billing

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestBudgetErrors checks that the error of a request that a budget does not cover says what is left, what the request
// may cost, whose account it is, when enough is free again, and with which output limit it would pass. With that limit
// it does.
func TestBudgetErrors(t *testing.T) {
	const day = 24 * time.Hour
	left := costOf(51, 100)
	for name, c := range map[string]struct {
		limit   quota.Limit
		account string
		output  int64
		spent   usage.Money
		want    []string
		passes  int64 // output limit
	}{
		"a smaller limit passes": {quota.Limit{Budget: 2 * left, Window: day}, "key:k", 500, left,
			[]string{"the daily budget of key:k does not cover this request: the request may cost " + costOf(51, 500).String() + ", more than the whole budget, and " + left.String() + " of " + (2 * left).String() + " is left for the key 'search'",
				"max_tokens) of 100 at most; ask its operator for more"}, 100},
		"it returns":        {quota.Limit{Budget: 2 * left, Window: day}, "key:k", 150, left, []string{"max_tokens) of 100 at most; enough is free again in 2", "s; ask its operator for more"}, 100},
		"no limit was set":  {quota.Limit{Budget: left}, "team:acme/blue", 0, 0, []string{"is left for the team 'blue' of 'acme'", "max_tokens) of 100 at most", "max_tokens) of 100 at most"}, 100},
		"nothing passes":    {quota.Limit{Budget: costOf(50, 0)}, "org:acme", 500, 0, []string{"is left for the organisation 'acme'"}, 0},
		"a person's budget": {quota.Limit{Budget: left}, "key:person_x", 500, 0, []string{"is left for your account"}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t, 0)
			r := request(quota.Account{ID: c.account, Limit: c.limit})
			r.KeyName = "search"
			if c.spent > 0 {
				a := mustReserve(t, b, r, EstimateRequest(2, 1, 1), one)
				a.Charge(Result{Status: 200, Outcome: usage.Answered, Last: Attempt{Target: one, Began: time.Now(), Reported: &llm.Usage{Input: 51, Output: 100}}})
			}
			_, err := b.Reserve(t.Context(), r, EstimateRequest(100, c.output, 1), []Target{one})
			if err == nil || err.Code != "budget_exceeded" {
				t.Fatalf("%+v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Message, want) {
					t.Errorf("no %q in %q", want, err.Message)
				}
			}
			if c.passes == 0 {
				if strings.Contains(err.Message, "max_tokens") {
					t.Error(err.Message)
				}
				return
			}
			for limit, passes := range map[int64]bool{c.passes: true, c.passes + 1: false} {
				a, err := b.Reserve(t.Context(), r, EstimateRequest(100, limit, 1), []Target{one})
				if passes != (err == nil) {
					t.Errorf("with a limit of %s: %v", strconv.FormatInt(limit, 10), err)
				}
				if a != nil {
					a.Charge(Result{Status: 200, Outcome: usage.Failed})
				}
			}
		})
	}
}

// TestBudgetOfOpenRequests checks that what open requests have reserved is not left.
func TestBudgetOfOpenRequests(t *testing.T) {
	b := newBooks(t, 0)
	r := request(quota.Account{ID: "key:k", Limit: quota.Limit{Budget: costOf(51, 150)}})
	mustReserve(t, b, r, EstimateRequest(100, 100, 1), one)
	_, err := b.Reserve(t.Context(), r, EstimateRequest(100, 100, 1), []Target{one})
	if want := "and " + costOf(0, 50).String() + " of " + costOf(51, 150).String() + " is left"; err == nil || !strings.Contains(err.Message, want) {
		t.Errorf("%+v, want %s", err, want)
	}
}

// TestUnpricedTarget checks that the error of a model without a price names the target and the account with the budget.
func TestUnpricedTarget(t *testing.T) {
	b := newBooks(t, 0)
	r := request(quota.Account{ID: "key:k", Limit: quota.Limit{Requests: 5}}, quota.Account{ID: "team:acme/blue", Limit: quota.Limit{Budget: usage.Dollar}})
	_, err := b.Reserve(t.Context(), r, EstimateRequest(100, 10, 1), []Target{one, unknown})
	if err == nil || err.Code != "price_unknown" || !strings.Contains(err.Message, "the target 'three/m' of the model") || !strings.Contains(err.Message, "the team 'blue' of 'acme' has a budget") {
		t.Errorf("%+v", err)
	}
	if _, err = b.ReserveForwarded(t.Context(), r); err == nil || !strings.Contains(err.Message, "the team 'blue' of 'acme' has a budget") {
		t.Errorf("%+v", err)
	}
}
