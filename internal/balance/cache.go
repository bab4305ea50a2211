package balance

import (
	"cmp"
	"math"
	"slices"
)

const (
	// bound is how much more than its share of the requests in flight a choice may
	// have before the cache policy prefers others.
	bound = 1.25
	// homes is the number of choices that the conversations of a prefix that is not
	// common are spread over.
	homes = 2
)

// home is the key that says where a session's prompts are cached. A conversation
// whose beginning is common can be anywhere, because every choice has that
// beginning cached; the others stay where their beginning is.
func (s *Session) home(choices int) uint64 {
	shared, own := s.Prefixes[0], s.Prefixes[len(s.Prefixes)-1]
	if len(s.Prefixes) == 1 || s.History.common(shared, choices) {
		return own
	}
	return mix(shared) + mix(own)%homes
}

// relieve moves the choices that have more than their share in flight behind the
// others.
func relieve(order []ranked, choices []Choice) {
	busy, weights := 1, 0 // with the request that is to be placed
	for i := range choices {
		busy += choices[i].inFlight()
		weights += choices[i].weight()
	}
	for i := range order {
		c := &choices[order[i].index]
		share := float64(busy) * float64(c.weight()) / float64(weights)
		if float64(c.inFlight()) >= room(share) {
			order[i].score = math.Inf(1)
		}
	}
	slices.SortStableFunc(order, func(a, b ranked) int { return cmp.Compare(a.score, b.score) })
}

// room is how many requests may be in flight where share is fair. Up to sixteen the
// bound is less than what chance alone does to a fair share, its square root, and
// to move a conversation for that costs more than it brings.
func room(share float64) float64 {
	return math.Ceil(max(bound*share, share+math.Sqrt(share)))
}
