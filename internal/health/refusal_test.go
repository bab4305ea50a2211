package health

import (
	"testing"
	"time"
)

func TestRefusedCredentialSetsAllItsTargetsAside(t *testing.T) {
	l := newLab(t)
	a, same, other := l.Target("a", "g", "k"), l.Target("b", "h", "k"), l.Target("c", "g", "j")
	fail(a, Credential, 3) // those in flight together count once
	l.want(t, a, Refused, 60*time.Second)
	l.want(t, same, Refused, 60*time.Second)
	l.want(t, other, "", 0)
}

func TestDeniedTargetLeavesTheCredentialAlone(t *testing.T) {
	l := newLab(t)
	a, same := l.Target("a", "g", "k"), l.Target("b", "g", "k")
	fail(a, Denied, 2)
	l.want(t, a, Refused, 60*time.Second)
	l.want(t, same, "", 0)
	same.Succeeded(0)
	l.want(t, a, Refused, 60*time.Second)
}

func TestOneRequestProbes(t *testing.T) {
	for _, kind := range []Kind{Credential, Denied} {
		t.Run(kind.String(), func(t *testing.T) {
			l := newLab(t)
			a := l.Target("a", "g", "k")
			fail(a, kind, 1)
			for _, want := range []time.Duration{2, 4, 8, 10, 10} { // minutes
				_, left := l.left(a)
				l.pass(left)
				l.want(t, a, "", 0)
				a.Begin()
				l.want(t, a, Refused, probeTime) // the others wait
				l.pass(time.Second)
				fail(a, kind, 1)
				a.End()
				l.want(t, a, Refused, want*time.Minute)
			}
			l.pass(10 * time.Minute)
			a.Begin()
			a.Succeeded(0)
			a.End()
			l.want(t, a, "", 0)
			fail(a, kind, 1)
			l.want(t, a, Refused, 60*time.Second)
		})
	}
}

func TestProbeWithoutOutcome(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	fail(a, Credential, 1)
	l.pass(refuseBase)
	a.Begin()
	fail(a, Server, 1) // says nothing about the key: the next one probes
	a.End()
	l.want(t, a, "", 0)
	a.Begin() // its client goes away
	a.End()
	l.want(t, a, Refused, probeTime)
	l.pass(probeTime)
	l.want(t, a, "", 0)
}

func TestSuccessEndsARefusal(t *testing.T) {
	l := newLab(t)
	a, same := l.Target("a", "g", "k"), l.Target("b", "g", "k")
	fail(a, Credential, 1)
	same.Succeeded(0) // let through because there was nobody else
	l.want(t, a, "", 0)
}
