package health

import (
	"testing"
	"time"
)

// TestRecent checks that the outcomes of the last 15 minutes are counted, and no others.
func TestRecent(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	want := func(succeeded, all int64) {
		t.Helper()
		if got, n := a.Recent(); got != succeeded || n != all {
			t.Errorf("%d of %d, want %d of %d", got, n, succeeded, all)
		}
	}
	want(0, 0)
	fail(a, Credential, 2)
	fail(a, Server, 1)
	a.Succeeded(0)
	want(1, 4)
	l.pass(10 * time.Minute)
	fail(a, Timeout, 3)
	want(1, 7)
	l.pass(6 * time.Minute)
	want(0, 3)
	l.pass(time.Hour)
	want(0, 0)
	fail(a, Server, 1)
	want(0, 1)
}

// TestDoubt checks that a target whose refusal or ejection has run out is in doubt until a request succeeds.
func TestDoubt(t *testing.T) {
	for kind, c := range map[Kind]struct {
		times  int
		reason string
	}{Credential: {1, Refused}, Denied: {denyAfter, NotAllowed}, Missing: {denyAfter, NoModel}, Server: {ejectAfter, Ejected}} {
		t.Run(kind.String(), func(t *testing.T) {
			l := newLab(t)
			a := l.Target("a", "g", "k")
			if a.Doubt() != "" {
				t.Error(a.Doubt())
			}
			fail(a, kind, c.times)
			l.pass(3 * time.Hour)
			l.want(t, a, "", 0) // it may be tried
			if a.Doubt() != c.reason {
				t.Errorf("%q, want %q", a.Doubt(), c.reason)
			}
			a.Succeeded(0)
			if a.Doubt() != "" {
				t.Errorf("%q after a success", a.Doubt())
			}
		})
	}
}
