package health

import (
	"strings"
	"testing"
	"time"
)

// pool creates one target per word: ready, eject, cool, check or refuse. A 2 after the
// word makes the state last longer.
func pool(l *lab, words string) []*Target {
	var all []*Target
	for i, word := range strings.Fields(words) {
		name := string(rune('a' + i))
		t := l.Target(name, name, name)
		switch word {
		case "eject":
			fail(t, Server, ejectAfter)
		case "eject2":
			fail(t, Server, ejectAfter)
			t.outlier.until.Store(0)
			fail(t, Server, ejectAfter)
		case "cool":
			t.Failed(Failure{Kind: Limited, RetryAfter: time.Second})
		case "cool2":
			t.Failed(Failure{Kind: Limited, RetryAfter: 2 * time.Second})
		case "check":
			t.watch.failed.Store(true)
		case "refuse":
			fail(t, Credential, 1)
		}
		all = append(all, t)
	}
	return all
}

func TestUsable(t *testing.T) {
	for _, c := range []struct{ pool, want string }{
		{"", ""},
		{"ready", "1"},
		{"ready ready ready", "111"},

		// At most half of the targets are ejected, and never the last one.
		{"eject", "1"},
		{"eject ready", "01"},
		{"eject2 eject", "01"},
		{"eject eject2 ready", "101"},
		{"eject eject2 ready ready", "0011"},
		{"eject2 eject eject2 eject", "0101"},
		{"eject2 eject2 eject ready ready", "00111"},

		// Targets that are out for other reasons do not count towards that half.
		{"cool cool ready", "001"},
		{"cool check refuse ready", "0001"},
		{"cool eject eject2 ready", "0001"},

		// If no target is ready, the least bad one is used.
		{"cool", "1"},
		{"check", "1"},
		{"refuse", "1"},
		{"eject cool", "10"},
		{"eject check", "10"},
		{"refuse eject", "01"},
		{"cool eject check refuse", "0100"},
		{"cool check refuse", "010"},
		{"cool2 cool cool", "011"},
		{"cool2 refuse", "10"},
		{"check check cool", "110"},
		{"refuse refuse", "11"},

		{"ready ready ready ready ready ready ready ready ready ready ready ready ready ready ready ready eject ready", "111111111111111101"},
	} {
		l := newLab(t)
		got := ""
		for _, ok := range Usable(nil, pool(l, c.pool)) {
			got += map[bool]string{true: "1", false: "0"}[ok]
		}
		if got != c.want {
			t.Errorf("%q: usable is %s, want %s", c.pool, got, c.want)
		}
	}
}

func TestUsableAppends(t *testing.T) {
	l := newLab(t)
	got := Usable([]bool{false}, pool(l, "eject ready"))
	if len(got) != 3 || got[0] || got[1] || !got[2] {
		t.Errorf("appended to one: %v", got)
	}
}

func TestUsableDoesNotAllocate(t *testing.T) {
	l := newLab(t)
	targets := pool(l, "ready eject cool check refuse ready eject cool check refuse ready eject cool check refuse ready")
	var buf [16]bool
	if n := testing.AllocsPerRun(100, func() { Usable(buf[:0], targets) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStateIsTheWorst(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	fail(a, Server, ejectAfter)
	l.want(t, a, Ejected, 30*time.Second)
	a.watch.failed.Store(true)
	if s := a.State(); s.Ready || s.Reason != CheckFailed || !s.Until.IsZero() {
		t.Errorf("state is %+v", s)
	}
	a.Failed(Failure{Kind: Limited, RetryAfter: 5 * time.Second})
	l.want(t, a, CoolingDown, 5*time.Second)
	fail(a, Credential, 1)
	l.want(t, a, Refused, 60*time.Second)
}
