package balance

import (
	"cmp"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// ranked is a choice with its score; the lowest comes first.
type ranked struct {
	score float64
	index int
}

// rank sorts by weighted rendezvous hashing: each choice gets a number that depends
// only on the key and its own ID, and the smallest comes first. A choice is first for
// a share of the keys that equals its share of the weights. When a choice is added or
// removed, only its own keys move. A random key gives a random order by weight.
func rank(order []ranked, choices []Choice, key uint64) {
	for i := range order {
		c := &choices[order[i].index]
		order[i].score = draw(c.ID, key) / c.share()
	}
	sortRanked(order)
}

func sortRanked(order []ranked) {
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.index, b.index))
	})
}

// draw returns a number from the exponential distribution with mean 1.
func draw(id string, key uint64) float64 {
	h := mix(xxhash.Sum64String(id) ^ mix(key))
	return -math.Log((float64(h>>11) + 0.5) / (1 << 53))
}

// mix is the finalizer of SplitMix64: every bit of x affects every bit of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// betterOfTwo swaps the first two if the second is better. The better of two random
// choices is nearly as good as the best of all, and does not send every request to
// the same one before its load is visible.
func betterOfTwo(order []ranked, choices []Choice, better func(a, b *Choice) bool) {
	if len(order) > 1 && better(&choices[order[1].index], &choices[order[0].index]) {
		order[0], order[1] = order[1], order[0]
	}
}

func lessBusy(a, b *Choice) bool {
	return float64(a.inFlight())*b.share() < float64(b.inFlight())*a.share()
}

// sooner compares the expected times to first token of a new request.
func sooner(a, b *Choice) bool {
	x, y := a.wait(), b.wait()
	if x == y {
		return lessBusy(a, b)
	}
	return x < y
}

// wait estimates the time to first token of a new request. A choice that has not been
// measured gets one request at a time.
func (c *Choice) wait() float64 {
	first, busy := c.firstToken(), c.inFlight()
	switch {
	case first > 0:
		return float64(first) * float64(busy+1) / c.share()
	case busy == 0:
		return 0
	default:
		return math.Inf(1)
	}
}

// pin moves the choice with an ID to the front.
func pin(order []ranked, choices []Choice, id string) {
	if id == "" {
		return
	}
	for i, r := range order {
		if choices[r.index].ID == id {
			copy(order[1:i+1], order[:i])
			order[0] = r
			return
		}
	}
}
