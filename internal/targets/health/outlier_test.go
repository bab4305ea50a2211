package health

import (
	"testing"
	"time"
)

func TestFiveFailuresInARowEject(t *testing.T) {
	for _, kind := range []Kind{Unreachable, Broken, Timeout, Server} {
		t.Run(kind.String(), func(t *testing.T) {
			l := newLab(t)
			a := l.Target("a", "g", "k")
			fail(a, kind, 4)
			l.want(t, a, "", 0)
			a.Succeeded(0)
			fail(a, kind, 4)
			l.want(t, a, "", 0)
			fail(a, kind, 1)
			l.want(t, a, Ejected, 30*time.Second)
			l.pass(30 * time.Second)
			l.want(t, a, "", 0)
		})
	}
}

func TestOtherFailuresDoNotEject(t *testing.T) {
	for _, kind := range []Kind{Limited, Credential, Denied} {
		t.Run(kind.String(), func(t *testing.T) {
			l := newLab(t)
			a := l.Target("a", "g", "k")
			fail(a, kind, 20)
			if r, _ := l.left(a); r == Ejected {
				t.Error("the target is ejected")
			}
			// They do not interrupt a row of failures either.
			b := l.Target("b", "h", "j")
			for range ejectAfter {
				fail(b, kind, 1)
				fail(b, Broken, 1)
			}
			if b.outlier.until.Load() == 0 {
				t.Error("five failures with others between them do not eject")
			}
		})
	}
}

func TestEjectionsGrow(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	for n := 1; n <= 12; n++ {
		fail(a, Server, ejectAfter)
		want := min(30*time.Second*time.Duration(n), 300*time.Second)
		l.want(t, a, Ejected, want)
		l.pass(want + time.Hour) // time alone does not reset the row
	}
}

func TestSuccessLowersTheNextEjectionOverTime(t *testing.T) {
	for _, c := range []struct {
		well time.Duration
		want time.Duration
	}{
		{0, 120 * time.Second},
		{9 * time.Second, 120 * time.Second},
		{10 * time.Second, 90 * time.Second},
		{25 * time.Second, 60 * time.Second},
		{time.Hour, 30 * time.Second},
	} {
		l := newLab(t)
		a := l.Target("a", "g", "k")
		for range 3 {
			fail(a, Server, ejectAfter)
			l.pass(300 * time.Second)
		}
		a.Succeeded(0)
		l.pass(c.well)
		a.Succeeded(0)
		fail(a, Server, ejectAfter)
		l.want(t, a, Ejected, c.want)
	}
}

func TestReportsDuringAnEjection(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	fail(a, Server, ejectAfter+40) // 40 requests were in flight
	l.want(t, a, Ejected, 30*time.Second)
	a.Succeeded(0) // one of them succeeded
	l.want(t, a, Ejected, 30*time.Second)
	l.pass(30 * time.Second)
	fail(a, Server, ejectAfter-1)
	l.want(t, a, "", 0)
	fail(a, Server, 1)
	l.want(t, a, Ejected, 60*time.Second)
}

func TestEjectionsAreJittered(t *testing.T) {
	for luck, want := range map[float64][2]time.Duration{
		0:     {24 * time.Second, 240 * time.Second},
		0.999: {35988 * time.Millisecond, 300 * time.Second}, // the maximum is jittered too
	} {
		l := newLab(t)
		l.luck = luck
		a := l.Target("a", "g", "k")
		fail(a, Server, ejectAfter)
		l.want(t, a, Ejected, want[0])
		for range 10 {
			l.pass(time.Hour)
			fail(a, Server, ejectAfter)
		}
		l.want(t, a, Ejected, want[1])
	}
}

func TestServerFailureWithRetryAfter(t *testing.T) {
	l := newLab(t)
	a, b := l.Target("a", "g", "k"), l.Target("b", "g", "k")
	a.Failed(Failure{Kind: Server, RetryAfter: 7 * time.Second})
	l.want(t, a, CoolingDown, 7*time.Second)
	l.want(t, b, "", 0)
	a.Failed(Failure{Kind: Server, Header: header("Retry-After", "3")})
	l.want(t, a, CoolingDown, 7*time.Second) // never shorter than an earlier Retry-After
	a.Failed(Failure{Kind: Server, RetryAfter: time.Hour})
	l.want(t, a, CoolingDown, LongestWait)
	l.pass(LongestWait)
	l.want(t, a, "", 0)
}

// TestEverySecondFailureEjects checks that a target is ejected if half of its requests fail, but not if fewer
// fail or if it has few requests.
func TestEverySecondFailureEjects(t *testing.T) {
	for name, c := range map[string]struct {
		good, bad int // in turn
		requests  int
		pause     time.Duration
		ejected   bool
	}{
		"every second":               {1, 1, 30, 100 * time.Millisecond, true},
		"two of four":                {2, 2, 30, 100 * time.Millisecond, true},
		"every third":                {2, 1, 300, 100 * time.Millisecond, false},
		"few requests":               {1, 1, 18, 100 * time.Millisecond, false},
		"few requests in the window": {1, 1, 300, 3 * time.Second, false},
		"over two windows":           {1, 1, 40, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a := l.Target("a", "g", "k")
			for range 1000 { // long ago
				a.Succeeded(0)
			}
			l.pass(time.Hour)
			ejected := false
			for i := range c.requests {
				if i%(c.good+c.bad) < c.good {
					a.Succeeded(0)
				} else {
					fail(a, Server, 1)
				}
				if reason, _ := l.left(a); reason == Ejected {
					ejected = true
					break
				}
				l.pass(c.pause)
			}
			if ejected != c.ejected {
				t.Errorf("ejected is %t", ejected)
			}
		})
	}
}

// TestWarmUp checks that the share of a target grows gradually after an ejection, and after the target was
// added.
func TestWarmUp(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	if got := a.Warmth(); got != 1 {
		t.Errorf("at the start a target has %v of its share", got)
	}
	fail(a, Server, ejectAfter)
	l.pass(30 * time.Second)
	l.want(t, a, "", 0)
	b := l.Target("b", "h", "k")
	for _, x := range []*Target{a, b} {
		if got := x.Warmth(); got != warmMin {
			t.Errorf("%s begins with %v of its share", x.ID(), got)
		}
	}
	l.pass(warmTime / 2)
	for _, x := range []*Target{a, b} {
		if got := x.Warmth(); got < 0.5 || got > 0.6 {
			t.Errorf("%s has %v of its share after half of the time", x.ID(), got)
		}
	}
	l.pass(warmTime / 2)
	for _, x := range []*Target{a, b} {
		if got := x.Warmth(); got != 1 {
			t.Errorf("%s ends with %v of its share", x.ID(), got)
		}
	}
}
