package freeport

import (
	"net"
	"slices"
	"testing"
)

// TestAddresses takes so many at once that chance alone would give some of them twice,
// and listens on each.
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
