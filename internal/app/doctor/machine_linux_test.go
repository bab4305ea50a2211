package doctor

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// TestHolderOfAPort finds the process that listens, on one address or on all, over IPv4 or IPv6.
func TestHolderOfAPort(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			if address == "[::1]:0" {
				continue // there is no IPv6 here
			}
			t.Fatal(err)
		}
		if h, ok := holderOf(l.Addr().String()); !ok || h.pid != os.Getpid() || h.uid != os.Getuid() || h.name != "doctor.test" {
			t.Errorf("%s: %+v, %v", l.Addr(), h, ok)
		}
		_ = l.Close()
		if h, ok := holderOf(l.Addr().String()); ok {
			t.Errorf("%s is closed: %+v", l.Addr(), h)
		}
	}
	for _, address := range []string{"", "x", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:nothing"} {
		if h, ok := holderOf(address); ok {
			t.Errorf("%q: %+v", address, h)
		}
	}
}

// TestSocketsOfTheKernel reads addresses as /proc/net/tcp has them, and texts that are none.
func TestSocketsOfTheKernel(t *testing.T) {
	for text, want := range map[string]string{"0100007F:1F90": "127.0.0.1:8080", "00000000000000000000000001000000:0050": "[::1]:80", "00000000:0000": "0.0.0.0:0"} {
		if got, ok := parseSocket(text); !ok || got != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", ":", "0100007F", "0100007F:", "zz00007F:1F90", "01:1F90", "0100007F:1F90F"} {
		if got, ok := parseSocket(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
