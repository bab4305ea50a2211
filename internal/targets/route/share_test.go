package route

import "testing"

func TestShareIsNeverExceeded(t *testing.T) {
	var s Share
	let, bytes, offered := 0, 0, 0
	for i := range 10_000 {
		size := 100 + i%7*1000
		offered += size
		s.Offer(0.05, size)
		if s.Take(size) {
			let++
			bytes += size
		}
	}
	if let > 500 || let < 350 || float64(bytes) > 0.05*float64(offered) {
		t.Errorf("%d of 10,000 were permitted, %d bytes of %d", let, bytes, offered)
	}
}

func TestUnusedShareIsBounded(t *testing.T) {
	var s Share
	for range 10_000 {
		s.Offer(0.05, 100)
	}
	let := 0
	for s.Take(100) {
		let++
	}
	if let != maxSaved {
		t.Errorf("%d at once, want %d", let, maxSaved)
	}
}

func TestSmallRequestsDoNotPermitALargeOne(t *testing.T) {
	var s Share
	for range 40 {
		s.Offer(0.05, 100)
	}
	if s.Take(1 << 20) {
		t.Error("a request of 1 MiB was permitted after 4 kB")
	}
}
