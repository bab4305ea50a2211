package health

import "time"

// The reasons why a target is not ready.
const (
	Ejected     = "ejected"
	CoolingDown = "cooling down"
	CheckFailed = "check failed"
	NotAllowed  = "access denied"
	NoModel     = "model missing"
	Refused     = "credential refused"
)

// State says whether a target may be tried.
type State struct {
	Ready  bool
	Reason string    // why not; one of the constants above
	Until  time.Time // when it will be ready; zero if unknown
}

// State returns whether the target may be tried now. It does not consider the other
// targets of a pool: a pool may use a target that is not ready, see [Usable].
func (t *Target) State() State {
	v := t.verdict()
	if v.grade == ready {
		return State{Ready: true}
	}
	return State{Reason: v.grade.String(), Until: t.fleet.time(v.until)}
}

// grade orders the states of a target, the best first.
type grade uint8

const (
	ready grade = iota
	ejected
	checkFailed // an attempt would probably fail
	coolingDown // the upstream has asked for a pause
	notAllowed
	noModel
	refused
)

func (g grade) String() string {
	return [...]string{"", Ejected, CheckFailed, CoolingDown, NotAllowed, NoModel, Refused}[g]
}

type verdict struct {
	grade grade
	until instant
}

// verdict returns the worst state of the target. For a healthy target it costs a few
// atomic loads and does not read the clock.
func (t *Target) verdict() verdict {
	key, denied, missing := t.key.until.Load(), t.denied.until.Load(), t.missing.until.Load()
	quota, rest, eject := t.quota.until.Load(), t.rest.Load(), t.outlier.until.Load()
	failed := t.watch.failed.Load()
	if key|denied|missing|quota|rest|eject == 0 && !failed {
		return verdict{}
	}
	now := int64(t.fleet.now())
	switch cool := max(quota, rest); {
	case now < key:
		return verdict{refused, instant(key)}
	case now < missing:
		return verdict{noModel, instant(missing)}
	case now < denied:
		return verdict{notAllowed, instant(denied)}
	case now < cool:
		return verdict{coolingDown, instant(cool)}
	case failed:
		return verdict{checkFailed, 0}
	case now < eject:
		return verdict{ejected, instant(eject)}
	}
	// Clear times that have passed, so that the clock is not read again. A refusal
	// stays until a probe succeeds.
	t.quota.until.CompareAndSwap(quota, 0)
	t.rest.CompareAndSwap(rest, 0)
	if eject != 0 && t.outlier.until.CompareAndSwap(eject, 0) {
		t.warmUp(instant(now))
	}
	return verdict{}
}

// Usable appends to dst, for each target of a pool, whether it may be tried:
//
//   - targets that are ready;
//   - ejected targets beyond half of the pool (rounded down), beginning with those
//     whose ejection ends first;
//   - if there are none of these, the targets with the best state. The states, the best
//     first, are: ejected, check failed, cooling down (only the targets that are ready
//     first), access denied, model missing, credential refused.
//
// It allocates nothing for up to 16 targets if dst has the capacity.
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

// panicRouting selects the targets with the best state when none is ready.
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

// soonest returns, of the targets of a grade that are not yet usable, the one that is ready
// first. There must be one.
func soonest(verdicts []verdict, usable []bool, g grade) int {
	best := -1
	for i, v := range verdicts {
		if v.grade == g && !usable[i] && (best < 0 || v.until < verdicts[best].until) {
			best = i
		}
	}
	return best
}
