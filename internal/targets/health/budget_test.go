package health

import (
	"math/rand/v2"
	"testing"
	"time"
)

// load simulates the requests of a provider. Each fails with a probability and is then
// tried up to three times in total.
type load struct {
	at      instant
	budget  *Budget
	dice    *rand.Rand
	offered int
	sent    int // including retries
}

func newLoad(seed uint64) *load {
	s := &load{at: 1, dice: rand.New(rand.NewPCG(seed, 1))}
	s.budget = &Budget{now: func() instant { return s.at }}
	return s
}

func (s *load) pass(d time.Duration) { s.at = s.at.add(d) }

func (s *load) run(d time.Duration, perSecond int, failing float64) {
	for range int(d.Seconds() * float64(perSecond)) {
		s.pass(time.Second / time.Duration(perSecond))
		s.offered++
		s.sent++
		s.budget.Offered()
		for tries := 1; tries < 3 && s.dice.Float64() < failing && s.budget.Retry(); tries++ {
			s.sent++
		}
	}
}

// reset clears the test's counters, but not the budget.
func (s *load) reset() { s.offered, s.sent = 0, 0 }

// TestOutageCostsAtMostAFifth checks that an upstream that fails all requests for 60 s at
// 500 requests a second receives at most 1.2 times the load.
func TestOutageCostsAtMostAFifth(t *testing.T) {
	for name, before := range map[string]func(*load){
		"from the start":    func(*load) {},
		"after quiet":       func(s *load) { s.run(33*time.Second, 500, 0) },
		"after a long idle": func(s *load) { s.run(15*time.Second, 500, 0); s.pass(time.Hour) },
		"after an outage":   func(s *load) { s.run(27*time.Second, 500, 1); s.run(41*time.Second, 500, 0) },
		"off the windows":   func(s *load) { s.run(10*time.Second, 500, 0); s.pass(9900 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newLoad(1)
			before(s)
			s.reset()
			for range 30 {
				s.run(retryLoan, 500, 1)
				if s.sent*5 > s.offered*6 {
					t.Errorf("%d were sent for the first %d", s.sent, s.offered)
				}
			}
			if s.offered != 30000 || s.sent*5 > s.offered*6 {
				t.Errorf("%d were sent for %d", s.sent, s.offered)
			}
			if s.sent*100 < s.offered*119 {
				t.Errorf("only %d were sent for %d: the budget is not used", s.sent, s.offered)
			}
		})
	}
}

// TestOutageAfterAnything checks an outage after any traffic. It may add at most the
// retries earned since the last denial, and their number is bounded.
func TestOutageAfterAnything(t *testing.T) {
	after := map[bool]int{}
	for seed := range uint64(40) {
		s := newLoad(seed)
		for range 1 + s.dice.IntN(5) {
			s.run(time.Duration(s.dice.IntN(25000))*ms, 100, s.dice.Float64()*s.dice.Float64())
		}
		more := 0
		if s.budget.denied {
			more = retryShare * s.budget.loan
		}
		after[s.budget.denied]++
		s.reset()
		for range 20 {
			s.run(3*time.Second, 100, 1)
			if s.sent*5 > s.offered*6+more {
				t.Errorf("seed %d: %d were sent for %d, and %d were earned before", seed, s.sent, s.offered, more/5)
			}
		}
	}
	if after[true] < 10 || after[false] < 10 {
		t.Errorf("the test is one-sided: %v", after)
	}
}

// TestOutageWithBursts checks that failures in bursts, such as timeouts, get the same
// share of retries.
func TestOutageWithBursts(t *testing.T) {
	for _, clump := range []int{1, 10, 25, 100, 250, 500} { // bursts shorter than the period of the loan
		s := newLoad(1)
		s.run(20*time.Second, 500, 0)
		s.reset()
		for i := range 30000 {
			s.run(2*ms, 500, 0)
			if i%clump == clump-1 {
				s.sent += granted(s.budget, 2*clump)
			}
		}
		if s.sent*5 > s.offered*6 || s.sent*100 < s.offered*118 {
			t.Errorf("clumps of %d: %d were sent for %d", clump, s.sent, s.offered)
		}
	}
}

func TestLoanIsForgottenWhenRequestsBecomeFew(t *testing.T) {
	s := newLoad(1)
	s.run(10*time.Second, 500, 0)
	granted(s.budget, 10000)
	s.run(50*time.Second, 2, 0)
	if n := granted(s.budget, 10); n != 0 {
		t.Errorf("%d retries before the loan is paid back", n)
	}
	s.run(11*time.Second, 2, 0)
	if n := granted(s.budget, 10); n < 3 {
		t.Errorf("%d retries a minute later", n)
	}
}

func TestOldRequestsAreNotRecent(t *testing.T) {
	for pause, want := range map[time.Duration]int{5 * time.Second: 40, 21 * time.Second: 3, time.Hour: 3} {
		l := newLab(t)
		b := l.Budget("p")
		for range 1000 {
			b.Offered()
		}
		l.pass(pause)
		if n := granted(b, 1000); n != want {
			t.Errorf("%d retries %v later, want %d", n, pause, want)
		}
	}
}

// TestFewFailuresAreRetried checks that hardly any retry is denied if one request in
// forty fails, in bursts of ten: the rate is far below a fifth.
func TestFewFailuresAreRetried(t *testing.T) {
	asked, denied := 0, 0
	for seed := range uint64(20) {
		s := newLoad(seed)
		s.run(10*time.Second, 100, 0)
		for range 10000 {
			s.run(10*ms, 100, 0)
			if s.dice.IntN(400) == 0 {
				asked += 10
				denied += 10 - granted(s.budget, 10)
			}
		}
	}
	if denied*100 > asked {
		t.Errorf("%d of %d retries were denied", denied, asked)
	}
}

func TestBurstTakesAFifthOfTwoSeconds(t *testing.T) {
	s := newLoad(1)
	s.run(time.Minute, 50, 0)
	if n := granted(s.budget, 100); n < 19 || n > 20 { // within the resolution of the sliding window
		t.Errorf("%d of 100 that failed together were retried, want 20", n)
	}
}

// TestMinimum checks that a provider with few requests always has three retries in ten
// seconds.
func TestMinimum(t *testing.T) {
	l := newLab(t)
	b := l.Budget("p")
	for range 1000 {
		b.Offered()
		if n := granted(b, 10); n != 3 {
			t.Fatalf("%d retries in a window, want 3", n)
		}
		l.pass(retryWindow)
	}
	// The minimum is not deducted when more requests follow.
	for range 100 {
		b.Offered()
	}
	if n := granted(b, 100); n < 3 {
		t.Errorf("%d retries after years of few requests", n)
	}
}

func TestProvidersHaveSeparateBudgets(t *testing.T) {
	l := newLab(t)
	a := l.Budget("a")
	if l.Budget("a") != a {
		t.Error("the same provider has another budget")
	}
	granted(a, 10)
	if granted(l.Budget("b"), 10) != 3 {
		t.Error("another provider pays for it")
	}
}

func granted(b *Budget, asked int) int {
	n := 0
	for range asked {
		if b.Retry() {
			n++
		}
	}
	return n
}

func TestBackoff(t *testing.T) {
	most := func() float64 { return 0.999999 }
	least := func() float64 { return 0 }
	for attempt, ceiling := range map[int]time.Duration{-1: 100 * ms, 0: 100 * ms, 1: 200 * ms, 2: 400 * ms, 4: 1600 * ms, 5: 2 * time.Second, 1000: 2 * time.Second} {
		if d := Backoff(attempt, 0, most); d >= ceiling || d < ceiling-ms {
			t.Errorf("attempt %d waits up to %v, want %v", attempt, d, ceiling)
		}
		if d := Backoff(attempt, 0, least); d != 0 {
			t.Errorf("attempt %d waits at least %v", attempt, d)
		}
		if d := Backoff(attempt, 7*time.Second, most); d != 7*time.Second {
			t.Errorf("retry-after 7 s waits %v", d)
		}
		if d := Backoff(attempt, 0, nil); d < 0 || d > ceiling {
			t.Errorf("attempt %d waits %v by chance", attempt, d)
		}
	}
}
