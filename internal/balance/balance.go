package balance

import (
	"math/rand/v2"
	"time"
)

// Policy is a way to choose among a model's targets.
type Policy string

// The policies.
const (
	InOrder    Policy = "order"      // as given: the first, and the others when it fails
	Weighted   Policy = "weight"     // at random, by weight
	LeastBusy  Policy = "least-busy" // of two at random, the one with fewer requests in flight for its weight
	Fastest    Policy = "fastest"    // of two at random, the one that is likely to answer first
	CacheAware Policy = "cache"      // the one that has the conversation in its prompt cache, unless it is too busy
)

// Policies lists the policies, the default first.
func Policies() []Policy { return []Policy{InOrder, Weighted, LeastBusy, Fastest, CacheAware} }

// Load is what is known of a target right now.
type Load interface {
	// InFlight is the number of requests that the target is busy with.
	InFlight() int
	// FirstToken is the smoothed time to the first token; 0 is unknown. Where
	// nothing has been measured for long it should become unknown again: a
	// target that was slow once is not asked, and so would stay slow for ever.
	FirstToken() time.Duration
}

// Choice is one target that may be asked.
type Choice struct {
	ID     string // the same in every process, such as "provider/model"
	Weight int    // its share of the requests against that of the others; less than 1 is 1
	Load   Load   // nil is idle and unknown
}

func (c *Choice) weight() int { return max(c.Weight, 1) }

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

// Session says what a request shares with others.
type Session struct {
	// Prefixes are hashes of growing beginnings of the request, shortest first:
	// what many conversations share, then what only this one has. AppendPrefixes
	// makes them. Only the cache policy reads them.
	Prefixes []uint64
	// History tells the cache policy which prefixes are common; it may be nil.
	History *History
	// Pin is the ID of the choice that comes first whatever the policy says: the
	// one whose credential sealed the conversation's reasoning.
	Pin string
	// Random is where chance comes from; nil is math/rand/v2.
	Random func() uint64
}

func (s *Session) random() uint64 {
	if s.Random == nil {
		return rand.Uint64() //nolint:gosec // which target is asked is no secret
	}
	return s.Random()
}

// Order returns the indexes of the choices in the order in which they are to be
// tried: all of them, the balanced pick first, then those to fall back on. Targets
// that are known to be down are better left out.
func Order(p Policy, choices []Choice, s Session) []int {
	return AppendOrder(make([]int, 0, len(choices)), p, choices, s)
}

// AppendOrder is Order for a caller that has a buffer.
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
	case p == CacheAware && len(s.Prefixes) > 0:
		rank(order, choices, s.home(len(choices)))
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
	pin(order, choices, s.Pin)
	for _, r := range order {
		dst = append(dst, r.index)
	}
	return dst
}
