package health

import (
	"strings"
	"testing"
	"time"
)

// deny reports a 403 for each client key in callers.
func deny(t *Target, callers string) {
	for _, c := range strings.Fields(callers) {
		t.Failed(Failure{Kind: Denied, Caller: c})
	}
}

func TestDeniedTargetCoolsDown(t *testing.T) {
	for name, c := range map[string]struct {
		before  string // client keys with an earlier success
		callers string // client keys that get a 403
		out     bool
	}{
		"one key that is the only one":      {"", "a a a a a", true},
		"one key, too few":                  {"", "a a a a", false},
		"one key of two":                    {"b", "a a a a a a a a", false},
		"two keys":                          {"", "a a a a b", true},
		"two keys, too few":                 {"", "a b a b", false},
		"two keys of many":                  {"x y z", "a b b b b", true},
		"the second key comes late":         {"b", "a a a a a a a b", true},
		"the only key, denied after it was": {"a", "a a a a a", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			target, other := l.Target("a", "g", "k"), l.Target("b", "g", "k")
			for _, caller := range strings.Fields(c.before) {
				target.UsedBy(caller)
				target.Succeeded(0)
			}
			deny(target, c.callers)
			if c.out {
				l.want(t, target, NotAllowed, 60*time.Second)
			} else {
				l.want(t, target, "", 0)
			}
			l.want(t, other, "", 0) // the credential is still valid for other models
		})
	}
}

func TestSuccessEndsTheRowOfDenials(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	deny(a, "a b a b")
	a.Succeeded(0)
	deny(a, "a b a b")
	l.want(t, a, "", 0)
	deny(a, "a")
	l.want(t, a, NotAllowed, 60*time.Second)
	a.Succeeded(0)
	l.want(t, a, "", 0)
}

// TestFormerCallerIsForgotten checks that a key that has not used the target for an hour
// no longer protects it from the denials of the only active key.
func TestFormerCallerIsForgotten(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	a.UsedBy("b")
	a.UsedBy("a")
	deny(a, "a a a a a a")
	l.want(t, a, "", 0)
	l.pass(callerTime + time.Second)
	deny(a, "a")
	l.want(t, a, NotAllowed, 60*time.Second)
}
