package testrig

import (
	"net"
	"slices"
	"testing"
)

// TestAddresses takes so many addresses at once that random choices would collide, and
// checks that all of them can be listened on.
func TestAddresses(t *testing.T) {
	found, err := Addresses(500)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range found {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("%v of %d different ones", err, len(slices.Compact(slices.Sorted(slices.Values(found)))))
			continue
		}
		defer l.Close()
	}
}
