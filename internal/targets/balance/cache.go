package balance

import (
	"cmp"
	"math"
	"slices"
)

const (
	// bound is how many times its fair share of the requests in flight a choice may
	// have before the cache policy prefers others.
	bound = 1.25
	// homes is the number of choices for the conversations of an uncommon prefix.
	homes = 2
)

// home returns the hash key of the choice that caches the session's prompts. Every
// choice caches a common prefix, so a conversation with one may go to any choice.
// Conversations with an uncommon prefix stay together.
func (s *Session) home(choices int) uint64 {
	shared, own := s.Prefixes[0], s.Prefixes[len(s.Prefixes)-1]
	if len(s.Prefixes) == 1 || s.History.common(shared, choices) {
		return own
	}
	return mix(shared) + mix(own)%homes
}

// relieve moves the choices with too many requests in flight behind the others.
func relieve(order []ranked, choices []Choice) {
	busy, weights := 1, 0 // includes the new request
	for i := range order {
		c := &choices[order[i].index]
		busy += c.inFlight()
		weights += c.weight()
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

// room returns how many requests a choice with a fair share may have in flight. For
// shares up to sixteen, random variation (the square root) exceeds the bound, and
// moving a conversation because of it costs more than it gains.
func room(share float64) float64 {
	return math.Ceil(max(bound*share, share+math.Sqrt(share)))
}
