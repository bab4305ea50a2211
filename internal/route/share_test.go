package route

import "testing"

// However the requests come, no more than the part is let through.
func TestShare(t *testing.T) {
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
		t.Errorf("%d of 10,000 were let through, %d bytes of %d", let, bytes, offered)
	}
}

// What was not used for long does not pile up.
func TestShareIsNotSavedForever(t *testing.T) {
	var s Share
	for range 10_000 {
		s.Offer(0.05, 100)
	}
	let := 0
	for s.Take(100) {
		let++
	}
	if let != saved {
		t.Errorf("%d at once, want %d", let, saved)
	}
}

// One large request does not slip through on the savings of small ones.
func TestShareCountsBytes(t *testing.T) {
	var s Share
	for range 40 {
		s.Offer(0.05, 100)
	}
	if s.Take(1 << 20) {
		t.Error("a request of 1 MiB was let through after 4 kB")
	}
}
