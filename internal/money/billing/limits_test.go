package billing

import (
	"context"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestLimits checks that the account with the least left counts, and the budget of which the
// largest part is spent.
func TestLimits(t *testing.T) {
	b := newBooks(t, 0)
	day := quota.Limit{Budget: 100, Window: 24 * time.Hour}
	accounts := []quota.Account{{ID: "key:k", Limit: quota.Limit{Requests: 10, Budget: 1000}}, {ID: "team:o/t", Limit: quota.Limit{Requests: 20, Tokens: 1000}}, {ID: "org:o", Limit: day}}
	reserve := func(accounts []quota.Account, cost usage.Money) {
		t.Helper()
		h, refusal := b.Quotas.Reserve(context.Background(), quota.Request{ID: "a", Org: "o", Accounts: accounts, Tokens: 300, Cost: cost})
		if refusal != nil {
			t.Fatal(refusal)
		}
		total := usage.Total{Log: b.Ledger.Name(), Org: "o", Spent: cost}
		h.Settle(300, 0, usage.Totals{})
		for _, a := range accounts {
			total.Account = a.ID
			b.Quotas.SetTotal(total)
		}
	}
	now := time.Now()
	limits := func(err *llm.Error) codec.Limits {
		l := b.Limits("o", accounts, now, err)
		l.Requests.Reset, l.Tokens.Reset = 0, 0
		return l
	}
	reserve(accounts, 80)
	rates := codec.Limits{Requests: codec.RateLimit{Limit: 10, Left: 9}, Tokens: codec.RateLimit{Limit: 1000, Left: 700}}
	want := rates
	want.Budget = codec.Budget{Limit: 100, Spent: 80, Window: day.Window, Reset: day.Reset(now)}
	if got := limits(nil); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want.Budget.Refused = true
	if got := limits(&llm.Error{Kind: llm.Quota, Code: llm.BudgetExceeded}); got != want {
		t.Errorf("refused: %+v, want %+v", got, want)
	}
	for _, err := range []*llm.Error{{Kind: llm.RateLimit}, {Kind: llm.Quota, Code: llm.BudgetExceeded, Relayed: true}} {
		if got := limits(err); got != rates {
			t.Errorf("%v: %+v, want %+v", err, got, rates)
		}
	}
	if got := b.Limits("o", nil, now, nil); got != (codec.Limits{}) {
		t.Errorf("without accounts: %+v", got)
	}
}
