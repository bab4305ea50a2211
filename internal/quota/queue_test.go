package quota

import (
	"fmt"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// A full queue adds up instead of dropping.
func TestQueueIsBounded(t *testing.T) {
	q := newQueue(10)
	accounts := [][]Account{{{ID: "key:a"}}, {{ID: "key:b"}}}
	for n := range 1000 {
		q.put(&item{id: fmt.Sprint(n), org: "o", accounts: accounts[n%2], open: 1, reserved: 7, cost: 5, born: [maxAccounts]int64{42}})
	}
	if items, merged := q.size(); items != 10 || merged != 2 {
		t.Errorf("%d items and %d sums", items, merged)
	}
	var cost, reserved usage.Money
	var open int64
	for {
		batch := q.next(4)
		if len(batch) == 0 {
			break
		}
		for _, it := range batch {
			cost, reserved, open = cost+it.cost, reserved+it.reserved, open+it.open
		}
	}
	if cost != 5000 || reserved != 7000 || open != 1000 {
		t.Errorf("%d, %d and %d came out", cost, reserved, open)
	}
}

func TestBreaker(t *testing.T) {
	type result struct{ failed, broken bool }
	well, bad := result{}, result{failed: true}
	mixed := []result{}
	for range 9 {
		mixed = append(mixed, well, bad)
	}
	for name, c := range map[string]struct {
		calls []result
		opens bool
	}{
		"a refused connection opens it at once": {[]result{{true, true}}, true},
		"one failure does not":                  {[]result{bad, well, bad, bad, well}, false},
		"three in a row do":                     {[]result{well, bad, bad, bad}, true},
		"half of few do not":                    {mixed, false},
		"half of twenty do":                     {append(mixed[:len(mixed):len(mixed)], well, bad), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBreaker()
			for _, r := range c.calls {
				b.done(r.failed, r.broken)
			}
			if b.lost.Load() != c.opens {
				t.Errorf("open is %v", b.lost.Load())
			}
			b.close()
			if b.done(true, false); b.lost.Load() {
				t.Error("it remembers after it was closed")
			}
		})
	}
}
