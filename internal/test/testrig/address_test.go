package testrig

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
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

// TestAddressesOfProcesses checks that a port which another process has chosen is not chosen
// again, although nothing listens on it yet.
func TestAddressesOfProcesses(t *testing.T) {
	first, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := net.SplitHostPort(first)
	port, _ := strconv.Atoi(text)
	if err := holdPort(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("another process can choose %s: %v", first, err)
	}
	if err := holdPort(port + 1); err != nil { // as another process does
		t.Skipf("port %d is in use: %v", port+1, err)
	}
	second, err := Address()
	if err != nil || second == fmt.Sprintf("127.0.0.1:%d", port+1) {
		t.Errorf("%s was chosen twice, %v", second, err)
	}
}
