package billing

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	budgets "github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Prices of one token of "one". Those of "two" are twice as high.
const (
	inputCost  usage.Money = 1_000
	outputCost usage.Money = 10_000
)

func costOf(input, output int64) usage.Money {
	return usage.Money(input)*inputCost + usage.Money(output)*outputCost
}

var (
	one     = Target{Name: "one/m", Preset: "one", PriceName: "one/m"}
	two     = Target{Name: "two/m", Preset: "two", PriceName: "two/m"}
	unknown = Target{Name: "three/m", Preset: "three", PriceName: "three/m"}
)

// testBooks is a Books with a ledger on disk, whose rows are collected.
type testBooks struct {
	Books
	mu   sync.Mutex
	rows []usage.Row
}

func (b *testBooks) Append(_ context.Context, batch usage.Batch) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, batch.Rows...)
	return batch.To, nil
}

func (b *testBooks) Finish(context.Context, string) error { return nil }

func newBooks(t *testing.T, maxBytes int64) *testBooks {
	t.Helper()
	prices, err := usage.NewBook(usage.BookOptions{Rules: map[string]usage.Tariff{
		"one/*": {Input: "1", Output: "10", CacheRead: "0.1"}, "two/*": {Input: "2", Output: "20"}, "small/*": {Input: "1", Output: "10", Context: 100},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := spool.Open(spool.Options{Dir: t.TempDir(), Node: "n1", MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	b := &testBooks{Books: Books{Node: "n1", Prices: prices, Ledger: ledger, Quotas: quota.NewMemory(quota.Options{Logs: ledger}), CountsInMemory: true}}
	ctx, stop := context.WithCancel(context.Background())
	var drained sync.WaitGroup
	drained.Go(func() { ledger.Drain(ctx, b, nil) })
	t.Cleanup(func() {
		stop()
		drained.Wait()
		b.Quotas.Close()
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// row waits for the only row and checks that no reservation remains.
func (b *testBooks) row(t *testing.T) usage.Row {
	t.Helper()
	if err := b.Ledger.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) != 1 {
		t.Fatalf("%d rows: %+v", len(b.rows), b.rows)
	}
	if n := b.Quotas.Snapshot().Open; n != 0 {
		t.Errorf("%d reservations are open", n)
	}
	return b.rows[0]
}

// spent returns the total that was charged to and reserved from the budget of an account.
func (b *testBooks) spent(t *testing.T, a quota.Account) usage.Money {
	t.Helper()
	low, high := usage.Money(0), a.Limit.Budget
	for low < high {
		mid := high - (high-low)/2
		probe, refusal := b.Quotas.Reserve(t.Context(), quota.Request{ID: "probe", Org: "o", Cost: mid, Accounts: onlyBudgets([]quota.Account{a})})
		if refusal != nil {
			high = mid - 1
			continue
		}
		probe.Settle(0, 0, usage.Totals{})
		low = mid
	}
	return a.Limit.Budget - low
}

func budget(m usage.Money) quota.Account {
	return quota.Account{ID: "key:k", Limit: quota.Limit{Budget: m}}
}

func request(accounts ...quota.Account) Request {
	return Request{ID: "r1", Key: "k", Team: "t", Org: "o", Accounts: accounts, Began: time.Now(), Endpoint: "chat_completions", Dialect: "openai-chat", Model: "m", Stream: true}
}

func mustReserve(t *testing.T, b *testBooks, r Request, e Estimate, targets ...Target) *Account {
	t.Helper()
	a, err := b.Reserve(t.Context(), r, e, targets)
	if err != nil || a == nil {
		t.Fatal(a, err)
	}
	return a
}

func TestEstimateRequest(t *testing.T) {
	for name, c := range map[string]struct {
		size           int
		limit, choices int64
		want           Estimate
	}{
		"a limit":           {100, 7, 1, Estimate{51, 26, 7, true, 1}},
		"several choices":   {100, 7, 3, Estimate{51, 26, 21, true, 3}},
		"no limit":          {100, 0, 2, Estimate{51, 26, 2 * outputStep, false, 2}},
		"nothing generated": {100, 0, 0, Estimate{51, 26, 0, true, 0}},
	} {
		if got := EstimateRequest(c.size, c.limit, c.choices); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestReserveAndCharge checks that the most expensive target determines the reservation,
// that the target that responded determines the charge, and that the rest is refunded.
func TestReserveAndCharge(t *testing.T) {
	b, key := newBooks(t, 0), budget(usage.Dollar)
	a := mustReserve(t, b, request(key), Estimate{MaxPrompt: 100, Prompt: 50, MaxOutput: 7, Bounded: true}, one, two)
	if got, want := b.spent(t, key), 2*costOf(100, 7); got != want {
		t.Errorf("reserved %v, want %v", got, want)
	}
	began := time.Now()
	cost := a.Charge(Result{Status: 200, Outcome: usage.Answered, Last: Attempt{Target: one, Began: began, Status: 200, Reported: &llm.Usage{Input: 3, Output: 2}}})
	if again := a.Charge(Result{Outcome: usage.Failed}); again != nil {
		t.Error("charged twice")
	}
	row := b.row(t)
	if cost == nil || *cost != costOf(3, 2) || b.spent(t, key) != *cost || row.Cost == nil || *row.Cost != *cost {
		t.Errorf("charged %v, the row has %v", cost, row.Cost)
	}
	if row.Node != "n1" || row.Key != "k" || row.Team != "t" || row.Org != "o" || row.Model != "m" || row.Target != one.Name || row.Status != 200 || row.Estimated || !row.Stream {
		t.Errorf("%+v", row)
	}
	if len(row.Attempts) != 1 || row.Attempts[0].Target != one.Name || !row.Attempts[0].Charged {
		t.Errorf("%+v", row.Attempts)
	}
}

func TestReserveRejects(t *testing.T) {
	estimate := Estimate{MaxPrompt: 100, MaxOutput: 7, Bounded: true}
	for name, c := range map[string]struct {
		limit    quota.Limit
		estimate Estimate
		targets  []Target
		code     string
		kind     llm.Kind
	}{
		"no price":         {quota.Limit{Budget: usage.Dollar}, estimate, []Target{one, unknown}, "price_unknown", llm.Permission},
		"too expensive":    {quota.Limit{Budget: 10}, estimate, []Target{one}, "budget_exceeded", llm.Quota},
		"an overflow":      {quota.Limit{Budget: usage.Dollar}, Estimate{MaxOutput: math.MaxInt64 / 2, Bounded: true}, []Target{one}, "budget_exceeded", llm.Quota},
		"too many tokens":  {quota.Limit{Tokens: 10}, estimate, []Target{one}, "rate_limit_tokens", llm.RateLimit},
		"budget, no price": {quota.Limit{}, estimate, []Target{unknown}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t, 0)
			var accounts []quota.Account
			if !c.limit.IsZero() {
				accounts = append(accounts, quota.Account{ID: "key:k", Limit: c.limit})
			}
			a, err := b.Reserve(t.Context(), request(accounts...), c.estimate, c.targets)
			if c.code == "" {
				if err != nil || a.Charge(Result{Outcome: usage.Answered, Last: Attempt{Target: unknown, Began: time.Now(), Reported: &llm.Usage{Input: 1}}}) != nil {
					t.Errorf("without a budget: %v", err)
				}
				return
			}
			if a != nil || err == nil || err.Code != c.code || err.Kind != c.kind {
				t.Errorf("%+v", err)
			}
			if n := b.Quotas.Snapshot().Open + b.Ledger.Snapshot().Open; n != 0 {
				t.Errorf("%d are open", n)
			}
		})
	}
}

// TestSeveralBudgets checks that a refusal names the budget that is exhausted and its wait, and that
// a response may grow only while all budgets have something left.
func TestSeveralBudgets(t *testing.T) {
	const day = 24 * time.Hour
	enough := costOf(51, 3*outputStep)
	accounts := quota.Limit{Budget: enough, Window: day, More: list(t, budgets.Budget{Amount: costOf(51, outputStep), Window: 30 * day})}.Accounts(nil, "key:k")
	b := newBooks(t, 0)
	a := mustReserve(t, b, request(accounts...), EstimateRequest(100, 0, 1), one)
	for range outputStep + 1 {
		a.CountText(1)
	}
	a.BeforeWrite()
	a.AfterWrite()
	err := a.Extend(t.Context())
	if err == nil || err.Code != "budget_exceeded" || !strings.HasPrefix(err.Message, "the monthly budget of key:k does not cover") || !a.Exhausted() {
		t.Errorf("an extension: %+v", err)
	}
	if open := b.Quotas.Snapshot().Open; open != 1 {
		t.Errorf("%d reservations are open, want 1", open)
	}
	a.Charge(Result{Status: 200, Outcome: usage.Answered, Last: Attempt{Target: one, Began: time.Now(), Reported: &llm.Usage{Output: outputStep}}})
	for _, account := range accounts {
		if c, err := b.Quotas.Count(t.Context(), "o", account.ID); err != nil || c.Spent != costOf(0, outputStep) || c.Reserved != 0 {
			t.Errorf("%s: %+v, %v", account.ID, c, err)
		}
	}
	_, err = b.Reserve(t.Context(), request(accounts...), EstimateRequest(100, 0, 1), []Target{one})
	if err == nil || !strings.HasPrefix(err.Message, "the monthly budget of key:k") || err.RetryAfter < 29*day || err.RetryAfter > 30*day {
		t.Errorf("a further request: %+v", err)
	}
}

func list(t *testing.T, all ...budgets.Budget) budgets.List {
	t.Helper()
	l, err := budgets.NewList(all)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestContextWindowBoundsThePrompt checks that no more prompt tokens are reserved than
// the model's context window holds.
func TestContextWindowBoundsThePrompt(t *testing.T) {
	b, key := newBooks(t, 0), budget(usage.Dollar)
	a := mustReserve(t, b, request(key), EstimateRequest(1000, 7, 1), Target{Name: "small/m", Preset: "small", PriceName: "small/m"})
	if got, want := b.spent(t, key), costOf(100, 7); got != want {
		t.Errorf("reserved %v, want %v", got, want)
	}
	if got, known := b.MaxCost(EstimateRequest(1000, 7, 1), []Target{{Name: "small/m", Preset: "small", PriceName: "small/m"}}); !known || got != costOf(100, 7) {
		t.Errorf("explained as %v", got)
	}
	a.Charge(Result{Outcome: usage.Failed})
	if row := b.row(t); row.Cost == nil || *row.Cost != 0 || row.Target != "" || len(row.Attempts) != 0 {
		t.Errorf("%+v", row)
	}
}

// TestFreeRequest checks that a request for which no vendor charges costs nothing at any
// price.
func TestFreeRequest(t *testing.T) {
	b, key := newBooks(t, 0), budget(usage.Dollar)
	key.Limit.Tokens = 10 // its prompt is not counted either
	r := request(key)
	r.Free = true
	a := mustReserve(t, b, r, EstimateRequest(1000, 0, 0), unknown)
	if got := b.spent(t, key); got != 0 {
		t.Errorf("reserved %v", got)
	}
	a.Charge(Result{Outcome: usage.Answered, Last: Attempt{Target: unknown, Began: time.Now()}})
	if row := b.row(t); row.Cost == nil || *row.Cost != 0 || row.Estimated || row.Usage != (llm.Usage{}) {
		t.Errorf("%+v", row)
	}
}

// TestExtend checks that a response without an output limit reserves step by step, from
// budgets only, and ends when the budget is exhausted.
func TestExtend(t *testing.T) {
	b := newBooks(t, 0)
	key := quota.Account{ID: "key:k", Limit: quota.Limit{Budget: costOf(51, 2*outputStep), Requests: 1, Concurrency: 1, Tokens: 6000}}
	a := mustReserve(t, b, request(key), EstimateRequest(100, 0, 1), one)
	send := func(tokens int64) *llm.Error {
		for range tokens {
			a.CountText(1)
		}
		a.BeforeWrite()
		a.AfterWrite()
		return a.Extend(t.Context())
	}
	if err := send(outputStep); err != nil || len(a.extensions) != 0 {
		t.Fatalf("within the reservation: %v", err)
	}
	if err := send(1); err != nil || len(a.extensions) != 1 {
		t.Fatalf("beyond it: %v", err)
	}
	if a.Exhausted() {
		t.Error("exhausted before the budget is")
	}
	if err := send(outputStep); err == nil || err.Code != "budget_exceeded" || !a.Exhausted() {
		t.Fatalf("beyond the budget: %v", err)
	}
	a.Charge(Result{Status: 200, Outcome: usage.Failed, Last: Attempt{Target: one, Began: time.Now(), Fault: "budget_exceeded"}})
	if err := a.Extend(t.Context()); err != nil {
		t.Errorf("after the charge: %v", err)
	}
	row := b.row(t)
	if want := costOf(26, 2*outputStep+1); !row.Estimated || *row.Cost != want || b.spent(t, key) != want || row.Attempts[0].Fault != "budget_exceeded" || !row.Attempts[0].Charged {
		t.Errorf("%+v, cost %v, want %v", row, *row.Cost, want)
	}
}

// TestUpstreamIgnoresTheLimit checks that a response much longer than the client's limit
// needs further reservations and ends with the budget.
func TestUpstreamIgnoresTheLimit(t *testing.T) {
	const limit = 1000
	b := newBooks(t, 0)
	key := budget(costOf(51, limit+outputStep))
	a := mustReserve(t, b, request(key), EstimateRequest(100, limit, 1), one)
	var sent int64
	for a.Extend(t.Context()) == nil {
		if sent++; sent > 10*outputStep {
			t.Fatal("the response does not end")
		}
		a.CountText(1)
		a.AfterWrite()
	}
	if want := int64(2*limit + outputSlack + outputStep + 1); sent != want || len(a.extensions) != 1 || !a.Exhausted() {
		t.Errorf("%d tokens after %d further reservations, want %d", sent, len(a.extensions), want)
	}
	a.Charge(Result{Status: 200, Outcome: usage.Failed, Last: Attempt{Target: one, Began: time.Now(), Fault: "budget_exceeded"}})
}

// TestNoExtension checks that a response within its output limit, or without a budget,
// makes no further reservation.
func TestNoExtension(t *testing.T) {
	for name, c := range map[string]struct {
		account  quota.Account
		estimate Estimate
	}{
		"a limit":   {budget(usage.Dollar), EstimateRequest(10, 100, 1)},
		"no budget": {quota.Account{ID: "key:k", Limit: quota.Limit{Requests: 1}}, Estimate{MaxOutput: 1}},
	} {
		b := newBooks(t, 0)
		a := mustReserve(t, b, request(c.account), c.estimate, one)
		a.CountText(400)
		a.AfterWrite()
		if err := a.Extend(t.Context()); err != nil || len(a.extensions) != 0 {
			t.Errorf("%s: %v", name, err)
		}
		a.Charge(Result{Outcome: usage.Left, Last: Attempt{Target: one, Began: time.Now()}})
	}
}

// TestFullLedger checks which requests are served without a row when the ledger is full.
func TestFullLedger(t *testing.T) {
	free := quota.Account{ID: "key:k", Limit: quota.Limit{Requests: 100}}
	for name, c := range map[string]struct {
		choice    Unrecorded
		account   quota.Account
		sheddable bool
		served    bool
	}{
		"a budget":           {"", budget(usage.Dollar), false, false},
		"no budget":          {"", free, false, true},
		"sheddable":          {"", free, true, false},
		"refuse":             {Refuse, free, false, false},
		"serve":              {Serve, budget(usage.Dollar), false, true},
		"serve, sheddable":   {Serve, budget(usage.Dollar), true, false},
		"refuse, the budget": {Refuse, budget(usage.Dollar), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t, 1)
			mustReserve(t, b, request(), Estimate{Bounded: true}, one).Charge(Result{Outcome: usage.Failed}) // fills the ledger
			b.Unrecorded = c.choice
			r := request(c.account)
			r.Sheddable = c.sheddable
			a, err := b.Reserve(t.Context(), r, Estimate{MaxOutput: 7, Bounded: true}, []Target{one})
			if !c.served {
				if a != nil || err == nil || err.Code != "ledger_full" || err.RetryAfter == 0 || b.Quotas.Snapshot().Open != 0 {
					t.Errorf("it is served, or reserves something: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			a.CountText(4)
			a.BeforeWrite()
			a.Charge(Result{Outcome: usage.Answered, Last: Attempt{Target: one, Began: time.Now(), Reported: &llm.Usage{Output: 2}}})
			if c.account.Limit.Budget > 0 && b.spent(t, c.account) != costOf(0, 2) {
				t.Errorf("charged %v", b.spent(t, c.account))
			}
		})
	}
}

func TestForwardedRequests(t *testing.T) {
	b := newBooks(t, 0)
	if a, err := b.ReserveForwarded(t.Context(), request(budget(usage.Dollar))); a != nil || err == nil || err.Code != "price_unknown" {
		t.Errorf("with a budget: %v", err)
	}
	a, err := b.ReserveForwarded(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	if cost := a.Charge(Result{Status: 200, Outcome: usage.Answered, Last: Attempt{Target: Target{Name: "one"}, Began: time.Now()}}); cost != nil {
		t.Errorf("the cost is known: %v", *cost)
	}
	if row := b.row(t); row.Target != "one" || row.Cost != nil {
		t.Errorf("%+v", row)
	}
}

func TestCachedRequests(t *testing.T) {
	b := newBooks(t, 0)
	a, err := b.OpenCached(t.Context(), request(quota.Account{ID: "key:k", Limit: quota.Limit{Budget: 1}}), one.Name)
	if err != nil {
		t.Fatal(err)
	}
	if cost := a.Charge(Result{Status: 200, Outcome: usage.Cached}); cost == nil || *cost != 0 {
		t.Errorf("%v", cost)
	}
	if row := b.row(t); row.Outcome != usage.Cached || len(row.Attempts) != 0 {
		t.Errorf("%+v", row)
	}
}

// TestRowOfAKilledProcess checks that the row of a request whose process is killed has the tokens of all
// writes, and a cost only if its price is known.
func TestRowOfAKilledProcess(t *testing.T) {
	for name, c := range map[string]struct {
		target Target
		cost   *usage.Money
	}{
		"known":   {one, new(costOf(26, 3))},
		"unknown": {unknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			killed, err := spool.Open(spool.Options{Dir: dir, Node: "n1"})
			if err != nil {
				t.Fatal(err)
			}
			b := newBooks(t, 0)
			b.Ledger = killed
			a := mustReserve(t, b, request(), EstimateRequest(100, 7, 1), c.target)
			for range 3 {
				a.CountText(1)
				a.BeforeWrite()
				a.AfterWrite()
			}
			if err := killed.Close(); err != nil {
				t.Fatal(err)
			}
			next := &testBooks{}
			if next.Ledger, err = spool.Open(spool.Options{Dir: dir, Node: "n1", Keep: -1}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var drained sync.WaitGroup
			drained.Go(func() { next.Ledger.Drain(ctx, next, nil) })
			testrig.Eventually(t, "the row is adopted", func() bool {
				next.mu.Lock()
				defer next.mu.Unlock()
				return len(next.rows) == 1
			})
			stop()
			drained.Wait()
			row := next.rows[0]
			if row.Outcome != usage.Lost || row.Usage.Output != 3 || !equal(row.Cost, c.cost) {
				t.Errorf("%+v with a cost of %v, want %v", row, row.Cost, c.cost)
			}
			if err := next.Ledger.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func equal(a, b *usage.Money) bool { return a == b || a != nil && b != nil && *a == *b }

// TestNoLedger checks that without a ledger the account is nil and all its methods do
// nothing.
func TestNoLedger(t *testing.T) {
	var b Books
	for _, open := range []func() (*Account, *llm.Error){
		func() (*Account, *llm.Error) { return b.Reserve(t.Context(), request(), Estimate{}, []Target{one}) },
		func() (*Account, *llm.Error) { return b.ReserveForwarded(t.Context(), request()) },
		func() (*Account, *llm.Error) { return b.OpenCached(t.Context(), request(), "") },
	} {
		a, err := open()
		if a != nil || err != nil {
			t.Fatal(a, err)
		}
		a.CountEvent(1)
		a.CountText(1)
		a.CountBody(1)
		a.CountResponse(&llm.Response{})
		a.BeforeWrite()
		a.AfterWrite()
		a.EndPart(Attempt{})
		a.AddLost(Attempt{Began: time.Now()})
		if a.Extend(t.Context()) != nil || a.Exhausted() || a.NeedsUsage() || !a.Closed() || a.Charge(Result{}) != nil {
			t.Error("a nil account does something")
		}
	}
}
