package exchange

import "testing"

// A body is copied little while it arrives, and a client that announces more than it sends takes little memory.
func TestNextPart(t *testing.T) {
	for _, size := range []int64{2 << 20, 10 << 20, 32 << 20, -1} {
		end, copied := int(size), 0
		if size < 0 {
			end = 10 << 20
		}
		arrived := FirstPart(size)
		for arrived < end {
			more := NextPart(arrived, size)
			if more <= 0 || arrived >= firstPart && more > bodyGrowth*arrived {
				t.Fatalf("%d announced, %d arrived: %d more", size, arrived, more)
			}
			copied += arrived
			arrived += more
		}
		if size > 0 && (arrived != end+1 || copied > end*3/4) {
			t.Errorf("%d announced: %d taken, %d copied", size, arrived, copied)
		}
		if size < 0 && copied > 5*end {
			t.Errorf("nothing announced: %d of %d copied", copied, end)
		}
	}
}
