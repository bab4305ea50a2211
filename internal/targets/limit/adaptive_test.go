package limit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// drive simulates requests to an adaptive limit for some seconds. The number of open
// requests is the smaller of offered and the limit. late returns the time to the first
// token of a request. The other tokens take two seconds.
func drive(a *adaptive, now *time.Duration, seconds, offered int, late func(open int) time.Duration) {
	const tick = 20 * time.Millisecond
	due := 0.0
	for range seconds * int(time.Second/tick) {
		*now += tick
		open := min(offered, a.places())
		d := late(open)
		for due += float64(open) * float64(tick) / float64(d+2*time.Second); due >= 1; due-- {
			a.firstToken("", d, *now-d, *now, open)
		}
	}
}

func flat(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// knee simulates a server that is fast up to a number of concurrent requests and slows
// down beyond it.
func knee(at int) func(int) time.Duration {
	return func(open int) time.Duration {
		over := max(1, float64(open)/float64(at))
		return time.Duration(200 * over * over * float64(time.Millisecond))
	}
}

func adaptiveTo(maximum int) *adaptive {
	a := newAdaptive()
	a.max = float64(maximum)
	return a
}

func TestAdaptiveLimit(t *testing.T) {
	cases := []struct {
		name      string
		do        func(a *adaptive, now *time.Duration)
		low, high int
	}{
		{"starts in between", func(*adaptive, *time.Duration) {}, adaptiveStart, adaptiveStart},
		{"rises to its maximum while latency is flat", func(a *adaptive, now *time.Duration) {
			drive(a, now, 60, 1000, flat(200*time.Millisecond))
		}, 500, 500},
		{"does not rise when it is not used", func(a *adaptive, now *time.Duration) {
			drive(a, now, 60, 10, flat(200*time.Millisecond))
		}, adaptiveStart, adaptiveStart},
		{"finds the knee", func(a *adaptive, now *time.Duration) { drive(a, now, 120, 1000, knee(100)) }, 80, 120},
		{"stays there for an hour", func(a *adaptive, now *time.Duration) { drive(a, now, 3600, 1000, knee(100)) }, 80, 120},
		{"follows the knee down", func(a *adaptive, now *time.Duration) {
			drive(a, now, 60, 1000, knee(100))
			drive(a, now, 60, 1000, knee(30))
		}, 20, 40},
		{"follows the knee up", func(a *adaptive, now *time.Duration) {
			drive(a, now, 60, 1000, knee(30))
			drive(a, now, 120, 1000, knee(100))
		}, 80, 120},
		{"few slow answers are not its doing", func(a *adaptive, now *time.Duration) {
			drive(a, now, 10, 2, flat(200*time.Millisecond))
			drive(a, now, 60, 2, flat(2*time.Second))
		}, adaptiveStart, adaptiveStart},
		{"recovers from the floor when prompts became longer", func(a *adaptive, now *time.Duration) {
			drive(a, now, 60, 1000, flat(200*time.Millisecond))
			drive(a, now, 120, 1000, flat(time.Second))
		}, 100, 500},
		{"is lowered by failures, to the half at most at once", func(a *adaptive, now *time.Duration) {
			drive(a, now, 60, 1000, flat(200*time.Millisecond))
			for range 1000 {
				a.failed("", *now)
			}
		}, 250, 250},
		{"falls to the floor when everything fails", func(a *adaptive, now *time.Duration) {
			drive(a, now, 60, 1000, flat(200*time.Millisecond))
			for range 10_000 {
				*now += time.Millisecond
				a.failed("", *now)
			}
		}, adaptiveFloor, adaptiveFloor},
		{"is not lowered by a failure now and then", func(a *adaptive, now *time.Duration) {
			for range 120 {
				drive(a, now, 1, 1000, flat(200*time.Millisecond))
				a.failed("", *now)
			}
		}, 400, 500},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, now := adaptiveTo(500), time.Duration(1)
			c.do(a, &now)
			if got := a.places(); got < c.low || got > c.high {
				t.Errorf("the limit is %d, want %d to %d", got, c.low, c.high)
			}
		})
	}
}

// TestAdaptiveLimitToleratesNoise checks that prompts of very different lengths do not
// lower the limit.
func TestAdaptiveLimitToleratesNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a, now := adaptiveTo(100), time.Duration(1)
	noise := func(int) time.Duration {
		return time.Duration(300 * math.Exp(random.NormFloat64()) * float64(time.Millisecond))
	}
	drive(a, &now, 60, 1000, noise)
	lowest := a.places()
	for range 600 {
		drive(a, &now, 1, 1000, noise)
		lowest = min(lowest, a.places())
	}
	if lowest < 50 {
		t.Errorf("the limit fell to %d of 100 by chance", lowest)
	}
}

func TestAdaptiveLimitOfASmallTarget(t *testing.T) {
	a := adaptiveTo(2)
	a.failed("", 1)
	if got := a.places(); got != 2 {
		t.Errorf("a target with a maximum of 2 has a limit of %d, want 2: that is below the floor", got)
	}
}
