package balance

import (
	"math/rand/v2"
	"time"
)

// Policy says how a target is chosen.
type Policy string

// The policies.
const (
	InOrder    Policy = "order"      // as configured
	Weighted   Policy = "weight"     // random, by weight
	LeastBusy  Policy = "least-busy" // of two random targets, the one with fewer requests in flight for its weight
	Fastest    Policy = "fastest"    // of two random targets, the one with the lower expected time to first token
	CacheAware Policy = "cache"      // the target that has the conversation in its prompt cache, unless it is too busy
)

// Load is the current load of a target.
type Load interface {
	// InFlight returns the number of open requests.
	InFlight() int
	// FirstToken returns the smoothed time to first token; 0 is unknown. It should
	// become unknown when nothing was measured for long: a slow target gets no
	// requests, and would stay slow for ever.
	FirstToken() time.Duration
	// Warmth returns the part of its share, up to 1, that the target should get: less when it
	// has come back a moment ago.
	Warmth() float64
}

// Zone says where a choice is, seen from the gateway.
type Zone uint8

// The zones.
const (
	NoZone    Zone = iota // it has none, such as a provider
	OwnZone               // that of the gateway
	OtherZone             // after all others, if a choice of the own zone is among them
)

// Choice is a target that may be tried.
type Choice struct {
	ID     string // the same in every process, such as "provider/model"
	Weight int    // relative share of the requests; less than 1 is 1
	Load   Load   // nil: idle, with an unknown time to first token
	Zone   Zone   // the policy "order" ignores it
	// Saturated says that its engine reports a queue or a nearly full KV cache. The
	// policy "least-busy" puts it after all others.
	Saturated bool
}

func (c *Choice) weight() int { return max(c.Weight, 1) }

// share returns the weight of a choice now.
func (c *Choice) share() float64 {
	if c.Load == nil {
		return float64(c.weight())
	}
	return float64(c.weight()) * c.Load.Warmth()
}

func (c *Choice) inFlight() int {
	if c.Load == nil {
		return 0
	}
	return c.Load.InFlight()
}

func (c *Choice) firstToken() time.Duration {
	if c.Load == nil {
		return 0
	}
	return c.Load.FirstToken()
}

// Session identifies the conversation of a request.
type Session struct {
	// Prefixes holds hashes of the request's beginning: first of what many
	// conversations share, then of what only this one has. AppendPrefixes computes
	// them. Only the cache policy reads them.
	Prefixes []uint64
	// History tells the cache policy which prefixes are common; it may be nil.
	History *History
	// Pin is the ID of the choice that comes first under any policy: the target whose
	// credential sealed the conversation's reasoning.
	Pin string
	// Random returns random numbers; nil is math/rand/v2.
	Random func() uint64
}

func (s *Session) random() uint64 {
	if s.Random == nil {
		return rand.Uint64() //nolint:gosec // the choice of a target is no secret
	}
	return s.Random()
}

// Order returns the indexes of all choices in the order in which to try them. The
// caller leaves out targets that are down.
func Order(p Policy, choices []Choice, s Session) []int {
	return AppendOrder(make([]int, 0, len(choices)), p, choices, s)
}

// AppendOrder appends the order to dst.
func AppendOrder(dst []int, p Policy, choices []Choice, s Session) []int {
	var room [16]ranked
	order := room[:0]
	if len(choices) > len(room) {
		order = make([]ranked, 0, len(choices))
	}
	for i := range choices {
		order = append(order, ranked{index: i})
	}
	switch {
	case p == InOrder:
	case grouped(choices):
		s.sortGroups(p, order, choices)
	default:
		s.sort(p, order, choices)
	}
	pin(order, choices, s.Pin)
	for _, r := range order {
		dst = append(dst, r.index)
	}
	return dst
}

// grouped reports whether a choice may come before or after others whatever the policy.
func grouped(choices []Choice) bool {
	for i := range choices {
		if choices[i].Zone == OwnZone || choices[i].Saturated {
			return true
		}
	}
	return false
}

// sortGroups sorts choices by a policy. For least-busy, saturated ones come last.
func (s *Session) sortGroups(p Policy, order []ranked, choices []Choice) {
	n := len(order)
	if p == LeastBusy {
		n = last(order, choices, func(c *Choice) bool { return c.Saturated })
	}
	s.sortZones(p, order[:n], choices)
	s.sortZones(p, order[n:], choices)
}

// sortZones sorts choices by a policy. Those of other zones come last if one of the own
// zone is among them.
func (s *Session) sortZones(p Policy, order []ranked, choices []Choice) {
	zones := [3]bool{}
	for _, r := range order {
		zones[choices[r.index].Zone] = true
	}
	n := len(order)
	if zones[OwnZone] && zones[OtherZone] {
		n = last(order, choices, func(c *Choice) bool { return c.Zone == OtherZone })
	}
	s.sort(p, order[:n], choices)
	s.sort(p, order[n:], choices)
}

// sort sorts choices by a policy.
func (s *Session) sort(p Policy, order []ranked, choices []Choice) {
	switch {
	case len(order) == 0:
	case p == CacheAware && len(s.Prefixes) > 0:
		rank(order, choices, s.home(len(order)))
		relieve(order, choices)
	case p == Weighted:
		rank(order, choices, s.random())
	case p == LeastBusy, p == CacheAware:
		rank(order, choices, s.random())
		betterOfTwo(order, choices, lessBusy)
	case p == Fastest:
		rank(order, choices, s.random())
		betterOfTwo(order, choices, sooner)
	}
}

// last moves the choices that a function selects to the end and returns the number of
// the others.
func last(order []ranked, choices []Choice, selects func(*Choice) bool) int {
	n := 0
	for i := range order {
		if !selects(&choices[order[i].index]) {
			order[i], order[n] = order[n], order[i]
			n++
		}
	}
	return n
}
