package billing

import (
	"math"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

func textResponse(text string, u *llm.Usage) *llm.Response {
	return &llm.Response{Usage: u, Choices: []llm.Choice{{Blocks: []llm.Block{&llm.Text{Text: text}}}}}
}

// TestEstimatedCharge checks that the tokens counted by the gateway are charged if the
// provider reports no usage.
func TestEstimatedCharge(t *testing.T) {
	for name, c := range map[string]struct {
		send    func(a *Account)
		outcome usage.Outcome
		last    Attempt
		want    llm.Usage
	}{
		"events":              {func(a *Account) { a.CountEvent(200); a.CountEvent(200); a.AfterWrite() }, usage.Answered, Attempt{}, llm.Usage{Input: 26, Output: 2}},
		"a body":              {func(a *Account) { a.CountBody(40) }, usage.Answered, Attempt{}, llm.Usage{Input: 26, Output: 11}},
		"a body of texts":     {func(a *Account) { a.CountResponse(textResponse("Hi", nil)); a.CountBody(400) }, usage.Answered, Attempt{}, llm.Usage{Input: 26, Output: 1}},
		"a body with usage":   {func(a *Account) { a.CountResponse(textResponse("Hi", &llm.Usage{})); a.CountBody(40) }, usage.Answered, Attempt{}, llm.Usage{Input: 26, Output: 11}},
		"the client left":     {func(a *Account) { a.CountEvent(200); a.AfterWrite(); a.CountEvent(200) }, usage.Left, Attempt{}, llm.Usage{Input: 26, Output: 1}},
		"early usage":         {func(a *Account) { a.CountEvent(200); a.AfterWrite() }, usage.Left, Attempt{Early: &llm.Usage{Input: 70, CacheRead: 30}}, llm.Usage{Input: 70, CacheRead: 30, Output: 1}},
		"failed after output": {func(a *Account) { a.CountEvent(200); a.AfterWrite() }, usage.Failed, Attempt{}, llm.Usage{Input: 26, Output: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b, key := newBooks(t, 0), budget(usage.Dollar)
			a := mustReserve(t, b, request(key), EstimateRequest(100, 0, 1), one)
			c.send(a)
			a.BeforeWrite()
			c.last.Target, c.last.Began = one, time.Now()
			a.Charge(Result{Outcome: c.outcome, Last: c.last})
			row := b.row(t)
			if row.Usage != c.want || !row.Estimated || !row.Attempts[0].Charged || *row.Cost != b.spent(t, key) {
				t.Errorf("%+v, want %+v", row, c.want)
			}
		})
	}
}

// TestTimesOfARow checks that a row has the wait for its first attempt, the first byte of the last one and the first token of any.
func TestTimesOfARow(t *testing.T) {
	began := time.Unix(100, 0)
	row := usage.Row{Began: began, Attempts: []usage.Attempt{
		{Began: began.Add(5 * time.Second), Times: usage.Times{FirstByte: time.Second, FirstToken: 2 * time.Second}},
		{Began: began.Add(3 * time.Second), Times: usage.Times{FirstByte: time.Second}},
	}}
	setTimes(&row, began.Add(5*time.Second))
	if row.Queue != 3*time.Second || row.FirstByte != 6*time.Second || row.FirstToken != 7*time.Second {
		t.Errorf("%v, %v, %v", row.Queue, row.FirstByte, row.FirstToken)
	}
}

// TestClientDoesNotPayForOtherAttempts checks that the row has failed and lost attempts
// and that the client does not pay for them.
func TestClientDoesNotPayForOtherAttempts(t *testing.T) {
	b, key := newBooks(t, 0), budget(usage.Dollar)
	a := mustReserve(t, b, request(key), EstimateRequest(100, 7, 1), one, two)
	began := time.Now()
	a.AddLost(Attempt{Target: two, Began: began, Fault: "hedge_lost", Early: &llm.Usage{Input: 5}})
	a.AddLost(Attempt{Target: unknown, Began: began.Add(1), Fault: "hedge_lost", Early: &llm.Usage{Input: 5}})
	a.AddLost(Attempt{Target: two}) // not sent
	a.Charge(Result{Status: 200, Outcome: usage.Answered,
		Failed: []usage.Attempt{{Target: two.Name, Began: began.Add(2), Status: 500, Fault: "500"}},
		Last:   Attempt{Target: one, Began: began.Add(3), Status: 200, Reported: &llm.Usage{Input: 3, Output: 2}}})
	row := b.row(t)
	if *row.Cost != costOf(3, 2) || len(row.Attempts) != 4 {
		t.Fatalf("%+v", row)
	}
	lost, unpriced, failed, last := row.Attempts[0], row.Attempts[1], row.Attempts[2], row.Attempts[3]
	if lost.Charged || lost.Cost == nil || *lost.Cost != 2*costOf(5, 0) || unpriced.Cost != nil || failed.Charged || failed.Fault != "500" || !last.Charged || last.Fault != "" {
		t.Errorf("%+v", row.Attempts)
	}
}

// TestLastAttemptFailed checks that the row has the last attempt once, even if it is one
// of the failed ones.
func TestLastAttemptFailed(t *testing.T) {
	for fault, want := range map[string]string{"": "timeout", "500": "500"} {
		b := newBooks(t, 0)
		a := mustReserve(t, b, request(), EstimateRequest(100, 7, 1), one)
		began := time.Now()
		a.Charge(Result{Status: 500, Outcome: usage.Failed, Failed: []usage.Attempt{{Target: one.Name, Began: began, Fault: fault}},
			Last: Attempt{Target: one, Began: began, Fault: FaultOf(&llm.Error{Kind: llm.Timeout})}})
		if row := b.row(t); len(row.Attempts) != 1 || row.Attempts[0].Fault != want || row.Attempts[0].Charged || *row.Cost != 0 {
			t.Errorf("%+v", row)
		}
	}
}

// TestContinuedStream checks that a stream started by one target and completed by another
// is charged in two parts, each at its own price. The usage that the second target
// reports includes the first part.
func TestContinuedStream(t *testing.T) {
	first := &llm.Usage{Input: 10, Output: 1}
	for name, c := range map[string]struct {
		reported  *llm.Usage // of the first part
		sum       *llm.Usage // of both
		estimated bool
		cost      usage.Money
	}{
		"both report":         {first, &llm.Usage{Input: 30, Output: 4}, true, costOf(10, 2) + 2*costOf(20, 3)}, // a truncated part is always estimated
		"only the second":     {nil, &llm.Usage{Input: 20, Output: 3}, true, costOf(26, 2) + 2*costOf(20, 3)},
		"neither":             {nil, nil, true, costOf(26, 2) + 2*costOf(26, 3)},
		"nothing since first": {first, first, true, costOf(10, 2) + 2*costOf(26, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			b, key := newBooks(t, 0), budget(usage.Dollar)
			a := mustReserve(t, b, request(key), EstimateRequest(100, 0, 1), one, two)
			send := func(tokens int) {
				for range tokens {
					a.CountText(1)
				}
				a.AfterWrite()
			}
			began := time.Now()
			send(2)
			a.EndPart(Attempt{Target: one, Began: began, Status: 200, Fault: "upstream_truncated", Reported: c.reported})
			send(3)
			a.Charge(Result{Status: 200, Outcome: usage.Answered, Last: Attempt{Target: two, Began: began.Add(1), Status: 200, Reported: c.sum}})
			row := b.row(t)
			if *row.Cost != c.cost || row.Estimated != c.estimated || len(row.Attempts) != 2 || !row.Attempts[0].Charged || !row.Attempts[1].Charged || row.Target != two.Name || b.spent(t, key) != c.cost {
				t.Errorf("cost %v, want %v: %+v", *row.Cost, c.cost, row)
			}
		})
	}
}

// TestStreamThatIsNotContinued checks that a truncated stream that no target could
// continue is charged once, for its first part.
func TestStreamThatIsNotContinued(t *testing.T) {
	b := newBooks(t, 0)
	a := mustReserve(t, b, request(), EstimateRequest(100, 0, 1), one, unknown)
	broken := Attempt{Target: one, Began: time.Now(), Status: 200, Fault: "upstream_truncated"}
	a.CountText(1)
	a.AfterWrite()
	a.EndPart(broken)
	a.Charge(Result{Status: 200, Outcome: usage.Failed, Last: broken})
	if row := b.row(t); *row.Cost != costOf(26, 1) || len(row.Attempts) != 1 {
		t.Errorf("%+v", row)
	}
}

// TestPartWithoutAPrice checks that the cost of a response is unknown if one of its parts
// has no price.
func TestPartWithoutAPrice(t *testing.T) {
	b := newBooks(t, 0)
	a := mustReserve(t, b, request(), EstimateRequest(100, 0, 1), unknown, one)
	began := time.Now()
	a.CountText(1)
	a.AfterWrite()
	a.EndPart(Attempt{Target: unknown, Began: began})
	a.Charge(Result{Outcome: usage.Answered, Last: Attempt{Target: one, Began: began.Add(1), Reported: &llm.Usage{Input: 1}}})
	if row := b.row(t); row.Cost != nil || row.Usage.Input != 27 {
		t.Errorf("%+v", row)
	}
}

// TestCostsThatOverflow checks that a sum that cannot be written is unknown, and not a small number.
func TestCostsThatOverflow(t *testing.T) {
	most, one := usage.Money(math.MaxInt64), usage.Money(1)
	if sum := addCost(&most, &one); sum != nil {
		t.Errorf("the sum is %v", *sum)
	}
	if sum := addCost(&one, &one); sum == nil || *sum != 2 {
		t.Error("a small sum is unknown")
	}
}

// TestQueuedRequest checks that a request whose usage comes later is charged at the reserved price, and has
// no cost if its target has no price.
func TestQueuedRequest(t *testing.T) {
	for name, c := range map[string]struct {
		targets []Target
		cost    *usage.Money
	}{
		"known":   {[]Target{one, two}, new(2 * costOf(100, 7))},
		"unknown": {[]Target{unknown}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t, 0)
			a := mustReserve(t, b, request(), Estimate{MaxPrompt: 100, Prompt: 50, MaxOutput: 7, Bounded: true}, c.targets...)
			cost := a.Charge(Result{Status: 200, Outcome: usage.Queued, Last: Attempt{Target: c.targets[0], Began: time.Now(), Status: 200}})
			if row := b.row(t); !equal(cost, c.cost) || !equal(row.Cost, c.cost) {
				t.Errorf("charged %v, the row has %v, want %v", cost, row.Cost, c.cost)
			}
		})
	}
}

func TestFaultOf(t *testing.T) {
	for _, c := range []struct {
		err  *llm.Error
		want string
	}{{nil, ""}, {&llm.Error{Kind: llm.Timeout}, string(llm.Timeout)}, {&llm.Error{Kind: llm.Timeout, Code: "timeout_total"}, "timeout_total"}} {
		if got := FaultOf(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestTierOfAResponse reserves at the highest price of all tiers and charges that of the tier which
// the response names.
func TestTierOfAResponse(t *testing.T) {
	b, key := newBooks(t, 0), budget(usage.Dollar)
	prices, err := usage.NewBook(usage.BookOptions{
		Rules: map[string]usage.Tariff{"one/*": {Input: "1", Output: "10"}},
		Lists: []usage.PriceList{{Provider: "one", Tier: "priority", Models: map[string]usage.Tariff{"m": {Input: "100", Output: "100"}}}, {Provider: "one", Tier: "batch", Models: map[string]usage.Tariff{"m": {Input: "0.5", Output: "5"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Prices = prices
	a := mustReserve(t, b, request(key), EstimateRequest(100, 7, 1), one)
	if want := usage.Money(58 * 100_000); a.reserved != want {
		t.Errorf("%d reserved, want %d for 51 and 7 tokens at the highest price", a.reserved, want)
	}
	batch := one
	batch.Tier = "batch"
	a.Charge(Result{Status: 200, Outcome: usage.Answered, Last: Attempt{Target: batch, Began: time.Now(), Status: 200, Reported: &llm.Usage{Input: 4, Output: 2}}})
	if row := b.row(t); *row.Cost != 4*500+2*5_000 || b.spent(t, key) != *row.Cost {
		t.Errorf("%+v", row)
	}
}
