package testrig

import (
	"fmt"
	"net"
	"slices"
	"strings"
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

// TestAddressesOfTwoProcesses checks that a process does not choose a port that another one has chosen,
// even if nothing listens on it yet.
func TestAddressesOfTwoProcesses(t *testing.T) {
	next := firstPort + (randomPort+portsChosen.Load()+1)%portCount
	if err := claim(next); err != nil { // as another process does
		t.Skip(err) // another process has in fact chosen it
	}
	found, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(found, fmt.Sprint(":", next)) {
		t.Errorf("%s belongs to another process", found)
	}
}
