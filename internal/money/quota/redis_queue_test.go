package quota

import (
	"fmt"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/few"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestQueueIsBounded checks that a full queue adds changes up instead of dropping them.
func TestQueueIsBounded(t *testing.T) {
	q := newQueue(10)
	accounts := [][]Account{{{ID: "key:a"}}, {{ID: "key:b"}}}
	for n := range 1000 {
		q.put(&change{id: fmt.Sprint(n), org: "o", accounts: accounts[n%2], open: 1, reserved: 7, log: "l", places: placeOf(place{total: usage.Money(n), lease: 42})})
	}
	if items, merged := q.size(); items != 10 || merged != 2 {
		t.Errorf("%d items and %d sums", items, merged)
	}
	var reserved usage.Money
	var open int64
	total := map[string]usage.Money{}
	for {
		batch := q.pop(4)
		if len(batch) == 0 {
			break
		}
		for _, it := range batch {
			reserved, open = reserved+it.reserved, open+it.open
			total[it.accounts[0].ID] = max(total[it.accounts[0].ID], it.places.At(0).total)
		}
	}
	if total["key:a"] != 998 || total["key:b"] != 999 || reserved != 7000 || open != 1000 {
		t.Errorf("%v, %d and %d came out", total, reserved, open)
	}
}

// TestOlderReplyDoesNotLowerSpending processes the replies of two calls in the wrong order. The mirror
// keeps the higher sum, from which the node's share is computed.
func TestOlderReplyDoesNotLowerSpending(t *testing.T) {
	k := &mirrorAccount{account: Account{ID: "key:k", Limit: Limit{Budget: 1000}}}
	for _, spent := range []usage.Money{100, 300, 200} {
		k.update(7, spent, 0, 1)
	}
	if k.spent != 300 {
		t.Errorf("the spending is %d, want 300", k.spent)
	}
	if k.update(8, 50, 0, 2); k.spent != 50 {
		t.Errorf("after the account was seeded again the spending is %d, want 50", k.spent)
	}
}

// placeOf returns the places of a change of one account.
func placeOf(p place) (l few.List[place]) {
	*l.At(0) = p
	return l
}

// TestSlicesBecomeSmaller checks that slices become smaller until one is not worth a call, and that none are
// fetched for a while then.
func TestSlicesBecomeSmaller(t *testing.T) {
	var k keyState
	k.backOff(1000, amounts{requests: 4 * minSlice})
	if k.divisor != 4 || k.noSliceUntil != 0 {
		t.Errorf("divided by %v, none until %d", k.divisor, k.noSliceUntil)
	}
	k.backOff(1000, amounts{requests: 4*minSlice - 1})
	if k.divisor != 1 || k.noSliceUntil != 1000+sliceBackoff {
		t.Errorf("divided by %v, none until %d", k.divisor, k.noSliceUntil)
	}
}
