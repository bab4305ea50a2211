package upstream

import (
	"errors"
	"net"
	"net/netip"
	"slices"
)

// errOwnAddress is the error of a connection to the gateway itself.
var errOwnAddress = errors.New("the address is the gateway's own")

// ownAddresses are the addresses on which the gateway listens.
type ownAddresses []netip.AddrPort

func (o *ownAddresses) add(a net.Addr) {
	if p, err := netip.ParseAddrPort(a.String()); err == nil {
		*o = append(*o, netip.AddrPortFrom(p.Addr().Unmap(), p.Port()))
	}
}

// contain reports whether the gateway listens on an address.
func (o ownAddresses) contain(address string) bool {
	p, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	to := p.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(o, func(own netip.AddrPort) bool {
		return own.Port() == p.Port() && (own.Addr() == to || to.IsUnspecified() || own.Addr().IsUnspecified() && isLocal(to))
	})
}

// isLocal reports whether an address belongs to this machine.
func isLocal(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	list, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(list, func(i net.Addr) bool {
		p, err := netip.ParsePrefix(i.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}
