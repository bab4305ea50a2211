package health

import (
	"math/rand/v2"
	"testing"
	"time"
)

// load is a simulation of a provider: requests at a rate, each of which fails
// with a probability and is then tried up to three times in all.
type load struct {
	at      instant
	budget  *Budget
	dice    *rand.Rand
	offered int
	sent    int // with retries
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

// reset forgets what was counted, not what the budget knows.
func (s *load) reset() { s.offered, s.sent = 0, 0 }

// TestOutageCostsAtMostAFifth is R11: an upstream that fails everything for 60 s
// at 500 requests a second gets at most 1.2 times the load.
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
			s.run(60*time.Second, 500, 1)
			if s.offered != 30000 || s.sent*5 > s.offered*6 {
				t.Errorf("%d were sent for %d", s.sent, s.offered)
			}
			if s.sent*100 < s.offered*119 {
				t.Errorf("only %d were sent for %d: the budget is not used", s.sent, s.offered)
			}
		})
	}
}

// An outage may come out of anything. The one retry that is kept in hand while
// some requests fail is all that may come on top.
func TestOutageAfterAnything(t *testing.T) {
	for seed := range uint64(40) {
		s := newLoad(seed)
		for range 1 + s.dice.IntN(5) {
			s.run(time.Duration(s.dice.IntN(25000))*ms, 100, s.dice.Float64()*s.dice.Float64())
		}
		s.reset()
		s.run(60*time.Second, 100, 1)
		if s.sent*5 > s.offered*6+5 {
			t.Errorf("seed %d: %d were sent for %d", seed, s.sent, s.offered)
		}
	}
}

// An episode that is almost over when the outage begins must not end within it,
// because a new one would bring a new loan.
func TestOutageAtTheEndOfAnEpisode(t *testing.T) {
	for left := range 12 {
		s := newLoad(1)
		s.run(20*time.Second, 100, 0)
		s.budget.Retry()
		for s.budget.spare < retryShare*s.budget.loan-left-1 {
			s.run(10*ms, 100, 0)
		}
		s.reset()
		for range 60 {
			s.run(time.Second, 100, 1)
			if s.offered >= 1000 && s.sent*5 > s.offered*6+5 {
				t.Fatalf("%d before its end: %d were sent for %d", left, s.sent, s.offered)
			}
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

func TestWhatWasOfferedLongAgoIsNotRecent(t *testing.T) {
	for pause, want := range map[time.Duration]int{5 * time.Second: 20, 21 * time.Second: 3, time.Hour: 3} {
		l := newLab(t)
		b := l.Budget("p")
		for range 100 {
			b.Offered()
		}
		l.pass(pause)
		if n := granted(b, 100); n != want {
			t.Errorf("%d retries %v later, want %d", n, pause, want)
		}
	}
}

func TestFewFailuresAreAllRetried(t *testing.T) {
	s := newLoad(3)
	s.run(10*time.Second, 100, 0)
	denied := 0
	for range 10000 { // 5 % fail, alone or in bursts
		s.pass(10 * ms)
		s.budget.Offered()
		if s.dice.Float64() < 0.005 {
			for range 10 {
				if !s.budget.Retry() {
					denied++
				}
			}
		}
	}
	if denied != 0 {
		t.Errorf("%d retries were denied", denied)
	}
}

func TestBurstTakesAFifthOfTheRecent(t *testing.T) {
	l := newLab(t)
	b := l.Budget("p")
	for range 100 {
		b.Offered()
	}
	l.pass(time.Second)
	if n := granted(b, 100); n != 20 {
		t.Errorf("%d of 100 that failed together were retried, want 20", n)
	}
}

// A provider with hardly any requests has three retries in ten seconds, for ever.
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
	// They are not held against it when there are more.
	for range 100 {
		b.Offered()
	}
	if n := granted(b, 100); n < 3 {
		t.Errorf("%d retries after years of few requests", n)
	}
}

func TestBudgetsAreApart(t *testing.T) {
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
