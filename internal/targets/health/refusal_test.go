package health

import (
	"testing"
	"time"
)

func TestRefusedCredentialConcernsAllItsTargets(t *testing.T) {
	l := newLab(t)
	a, same, other := l.Target("a", "g", "k"), l.Target("b", "h", "k"), l.Target("c", "g", "j")
	fail(a, Credential, 3) // concurrent failures count once
	l.want(t, a, Refused, 60*time.Second)
	l.want(t, same, Refused, 60*time.Second)
	l.want(t, other, "", 0)
}

func TestOneRequestProbes(t *testing.T) {
	for kind, c := range map[Kind]struct {
		times  int // consecutive failures that take the target out of service
		reason string
	}{Credential: {1, Refused}, Denied: {denyAfter, NotAllowed}} {
		t.Run(kind.String(), func(t *testing.T) {
			l := newLab(t)
			a := l.Target("a", "g", "k")
			fail(a, kind, c.times)
			for _, want := range []time.Duration{2, 4, 8, 10, 10} { // minutes
				_, left := l.left(a)
				l.pass(left)
				l.want(t, a, "", 0)
				a.Begin()
				l.want(t, a, c.reason, probeTime) // other requests wait for the probe
				l.pass(time.Second)
				fail(a, kind, 1)
				a.End()
				l.want(t, a, c.reason, want*time.Minute)
			}
			l.pass(10 * time.Minute)
			a.Begin()
			a.Succeeded(0)
			a.End()
			l.want(t, a, "", 0)
			fail(a, kind, c.times)
			l.want(t, a, c.reason, 60*time.Second)
		})
	}
}

func TestProbeWithoutOutcome(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	fail(a, Credential, 1)
	l.pass(refuseBase)
	a.Begin()
	fail(a, Server, 1) // not related to the key: the next request probes again
	a.End()
	l.want(t, a, "", 0)
	a.Begin() // its client disconnects
	a.End()
	l.want(t, a, Refused, probeTime)
	l.pass(probeTime)
	l.want(t, a, "", 0)
}

func TestSuccessEndsARefusal(t *testing.T) {
	l := newLab(t)
	a, same := l.Target("a", "g", "k"), l.Target("b", "g", "k")
	fail(a, Credential, 1)
	same.Succeeded(0) // admitted because no other target is available
	l.want(t, a, "", 0)
}
