package health

import "time"

// Why a target is not ready.
const (
	Ejected     = "ejected"
	CoolingDown = "cooling down"
	CheckFailed = "check failed"
	Refused     = "credential refused"
)

// State is whether a target may be asked.
type State struct {
	Ready  bool
	Reason string    // why not, one of the constants above
	Until  time.Time // when it will be ready; zero where nobody knows
}

// State is whether the target may be asked now. It looks at the target alone: a
// pool may let it through all the same, see [Usable].
func (t *Target) State() State {
	v := t.verdict()
	if v.grade == ready {
		return State{Ready: true}
	}
	return State{Reason: v.grade.String(), Until: t.fleet.time(v.until)}
}

// grade is how bad it is to ask a target, the least bad first.
type grade uint8

const (
	ready grade = iota
	ejected
	checkFailed // asking it would most likely fail,
	coolingDown // and here we were told not to ask
	refused
)

func (g grade) String() string {
	return [...]string{"", Ejected, CheckFailed, CoolingDown, Refused}[g]
}

type verdict struct {
	grade grade
	until instant
}

// verdict is the worst that is known about the target. While nothing is known it
// costs some loads and no look at the clock.
func (t *Target) verdict() verdict {
	key, denied := t.key.until.Load(), t.denied.until.Load()
	quota, rest, eject := t.quota.until.Load(), t.rest.Load(), t.outlier.until.Load()
	failed := t.watch.failed.Load()
	if key|denied|quota|rest|eject == 0 && !failed {
		return verdict{}
	}
	now := int64(t.fleet.now())
	switch refusedUntil, cool := max(key, denied), max(quota, rest); {
	case now < refusedUntil:
		return verdict{refused, instant(refusedUntil)}
	case now < cool:
		return verdict{coolingDown, instant(cool)}
	case failed:
		return verdict{checkFailed, 0}
	case now < eject:
		return verdict{ejected, instant(eject)}
	}
	// What has passed need not be compared with the clock again. A refusal stays:
	// it is over when a probe has succeeded.
	t.quota.until.CompareAndSwap(quota, 0)
	t.rest.CompareAndSwap(rest, 0)
	t.outlier.until.CompareAndSwap(eject, 0)
	return verdict{}
}

// Usable appends to dst, for each target of a pool, whether it may be asked:
//
//   - those that are ready;
//   - of the ejected, all beyond half of the pool (rounded down), those first
//     whose ejection ends first;
//   - where that is nobody, the least bad: the ejected, else those whose check
//     failed, else those that cool down and are ready first, else all, refused as
//     they are. A caller that would rather answer 429 than ask an upstream that
//     cools down looks at [Target.State].
//
// It allocates nothing for up to 16 targets where dst has room for them.
func Usable(dst []bool, pool []*Target) []bool {
	from := len(dst)
	var buf [16]verdict
	verdicts := buf[:0]
	var count [refused + 1]int
	for _, t := range pool {
		v := t.verdict()
		count[v.grade]++
		verdicts = append(verdicts, v)
		dst = append(dst, v.grade == ready)
	}
	usable := dst[from:]
	if count[ready] == len(pool) {
		return dst
	}
	for range count[ejected] - len(pool)/2 {
		usable[soonest(verdicts, usable, ejected)] = true
		count[ready]++
	}
	if count[ready] == 0 {
		panicRouting(verdicts, usable, count)
	}
	return dst
}

// panicRouting lets the least bad through when nobody is ready.
func panicRouting(verdicts []verdict, usable []bool, count [refused + 1]int) {
	best := ejected
	for best < refused && count[best] == 0 {
		best++
	}
	first := verdict{until: -1}
	if best == coolingDown {
		first = verdicts[soonest(verdicts, usable, best)]
	}
	for i, v := range verdicts {
		usable[i] = v.grade == best && (first.until < 0 || v.until == first.until)
	}
}

// soonest is the target of a grade that is ready first, of those left out. There
// is one.
func soonest(verdicts []verdict, usable []bool, g grade) int {
	best := -1
	for i, v := range verdicts {
		if v.grade == g && !usable[i] && (best < 0 || v.until < verdicts[best].until) {
			best = i
		}
	}
	return best
}
