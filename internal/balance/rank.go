package balance

import (
	"cmp"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// ranked is a choice's place in an order that is being made.
type ranked struct {
	score float64
	index int
}

// rank sorts by weighted rendezvous hashing: for each key every choice draws a
// number that depends on the key and its own ID alone, and the smallest is first.
// A choice is first for a share of the keys that is its share of the weights, and
// when a choice comes or goes only the keys that it wins or had won move. With a
// key drawn at random it is an order at random by weight.
func rank(order []ranked, choices []Choice, key uint64) {
	for i := range order {
		c := &choices[order[i].index]
		order[i].score = draw(c.ID, key) / float64(c.weight())
	}
	sortRanked(order)
}

func sortRanked(order []ranked) {
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.index, b.index))
	})
}

// draw is a number of the exponential distribution with mean 1.
func draw(id string, key uint64) float64 {
	h := mix(xxhash.Sum64String(id) ^ mix(key))
	return -math.Log((float64(h>>11) + 0.5) / (1 << 53))
}

// mix is the finalizer of SplitMix64: every bit of x counts in every bit of it.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// betterOfTwo swaps the first two if the second is better. Two choices at random
// and the better of them is nearly as good as the best of all, and does not send
// everyone to the same one while news of its load is on the way.
func betterOfTwo(order []ranked, choices []Choice, better func(a, b *Choice) bool) {
	if len(order) > 1 && better(&choices[order[1].index], &choices[order[0].index]) {
		order[0], order[1] = order[1], order[0]
	}
}

func lessBusy(a, b *Choice) bool {
	return a.inFlight()*b.weight() < b.inFlight()*a.weight()
}

// sooner compares the time to the first token that a further request may expect.
func sooner(a, b *Choice) bool {
	x, y := a.wait(), b.wait()
	if x == y {
		return lessBusy(a, b)
	}
	return x < y
}

// wait is the first token's time, times the requests that want one. One request
// probes a choice of which nothing is known; while it does so others stay away.
func (c *Choice) wait() float64 {
	first, busy := c.firstToken(), c.inFlight()
	switch {
	case first > 0:
		return float64(first) * float64(busy+1) / float64(c.weight())
	case busy == 0:
		return 0
	default:
		return math.Inf(1)
	}
}

// pin moves the choice of an ID to the front.
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
