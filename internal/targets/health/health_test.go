package health

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain fails the package if a goroutine leaks. It first waits for the dials of
// timed-out checks.
func TestMain(m *testing.M) {
	code := m.Run()
	for late := time.Now().Add(2 * dialLimit); code == 0; {
		err := goleak.Find()
		if err == nil {
			break
		}
		if time.Now().After(late) {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// lab is a fleet with a clock and random numbers that the test sets.
type lab struct {
	*Fleet
	mu   sync.Mutex
	at   time.Time
	luck float64 // result of the next random draws; 0.5 leaves jittered times unchanged
}

func newLab(t testing.TB) *lab {
	l := &lab{at: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), luck: 0.5}
	l.Fleet = NewFleet(Options{
		Now:  func() time.Time { l.mu.Lock(); defer l.mu.Unlock(); return l.at },
		Rand: func() float64 { l.mu.Lock(); defer l.mu.Unlock(); return l.luck },
	})
	t.Cleanup(l.Close)
	return l
}

func (l *lab) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = l.at.Add(d)
}

// left returns why a target is out of service, and for how long.
func (l *lab) left(t *Target) (string, time.Duration) {
	s := t.State()
	if s.Ready {
		return "", 0
	}
	return s.Reason, s.Until.Sub(l.at)
}

func (l *lab) want(t *testing.T, target *Target, reason string, left time.Duration) {
	t.Helper()
	if r, d := l.left(target); r != reason || d != left {
		t.Errorf("state is %q for %v, want %q for %v", r, d, reason, left)
	}
}

func fail(t *Target, kind Kind, times int) {
	for range times {
		t.Failed(Failure{Kind: kind})
	}
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestTargetsOutliveConfigurations(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k1")
	if l.Target("a", "g", "k1") != a {
		t.Error("the same target is another")
	}
	b := l.Target("b", "g", "k1")
	a.Begin()
	fail(a, Server, ejectAfter)
	fail(b, Credential, 1)
	renewed := l.Target("a", "g", "k2")
	if renewed.InFlight() != 1 {
		t.Error("a new key has lost the requests in flight")
	}
	l.want(t, renewed, Ejected, 30*time.Second)
	l.want(t, a, Refused, 60*time.Second)

	// Results of requests with the old key do not affect the new one.
	l.pass(30 * time.Second)
	fail(a, Credential, 1)
	a.End()
	l.want(t, renewed, "", 0)
	if renewed.InFlight() != 0 {
		t.Error("a request that began before the new key does not end")
	}

	l.Keep("a", "never-there")
	if got := l.Snapshot(); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("kept are %+v, want a alone", got)
	}
	if len(l.quotas) != 1 || len(l.keys) != 1 {
		t.Errorf("%d groups and %d credentials are left, want one each", len(l.quotas), len(l.keys))
	}
	if l.Target("b", "g", "k1") == b {
		t.Error("a forgotten target came back with its past")
	}
	b.Begin() // a request of the old configuration
	b.Succeeded(time.Second)
	b.End()
}

func TestWithoutAGroupNothingIsShared(t *testing.T) {
	l := newLab(t)
	a, b := l.Target("a", "", ""), l.Target("b", "", "")
	l.Keep("a", "b")
	c := l.Target("c", "", "")
	fail(a, Limited, 1)
	fail(b, Credential, 1)
	l.want(t, a, CoolingDown, time.Second)
	l.want(t, b, Refused, 60*time.Second)
	l.want(t, c, "", 0)
	if l.Target("a", "", "") != a {
		t.Error("the same target is another")
	}
}

func TestSnapshot(t *testing.T) {
	l := newLab(t)
	b, a := l.Target("b", "g", "k"), l.Target("a", "h", "k")
	for i := range 100 {
		a.Succeeded(time.Duration(i+1) * time.Millisecond)
	}
	a.Begin()
	fail(b, Server, 2)
	fail(b, Limited, 1)
	got := l.Snapshot()
	if len(got) != 2 || got[0].ID != "a" || got[1].ID != "b" {
		t.Fatalf("snapshot is %+v", got)
	}
	if s := got[0]; s.InFlight != 1 || !s.Ready || s.Succeeded != 100 || s.P50 != 50*time.Millisecond || s.P95 != 95*time.Millisecond || len(s.Failed) != 0 {
		t.Errorf("a is %+v", s)
	}
	if s := got[1]; s.Group != "g" || s.Ready || s.Reason != CoolingDown || s.Consecutive != 2 || s.Failed[Server] != 2 || s.Failed[Limited] != 1 || s.P95 != 0 {
		t.Errorf("b is %+v", s)
	}
}

func TestKindsHaveNames(t *testing.T) {
	for k, want := range map[Kind]string{Unreachable: "unreachable", Denied: "denied", kinds: "unknown", 200: "unknown"} {
		if k.String() != want {
			t.Errorf("%d is %q, want %q", k, k, want)
		}
	}
	l := newLab(t)
	l.Target("a", "g", "k").Failed(Failure{Kind: 200}) // must not panic
}
