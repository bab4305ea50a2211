package discover

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/targets/discover/rotation"
)

const (
	maxText   = 512  // maximum bytes of an id, a model, a name or a zone
	maxURL    = 2048 // bytes
	maxNumber = 1 << 20
)

// rules holds the requirements for a worker.
type rules struct {
	networks  []netip.Prefix
	protocols []string
	models    []string // names, or prefixes with "*", that workers may offer; empty: all
}

// check returns why a worker is rejected, or nil. Everyone with access to the source
// can write it, so nothing in it is trusted.
func (r rules) check(w Worker) error {
	for _, f := range []struct{ field, text string }{{"id", w.ID}, {"model", w.Model}} {
		if f.text == "" {
			return fmt.Errorf("it has no %s", f.field)
		}
	}
	for _, f := range []struct{ field, text string }{{"id", w.ID}, {"model", w.Model}, {"name", w.Name}, {"zone", w.Zone}} {
		if !rotation.IsText(f.text, maxText) {
			return fmt.Errorf("its %s is longer than %d bytes or is not printable text", f.field, maxText)
		}
	}
	if strings.Contains(w.Model, "*") {
		return errors.New("its model has a \"*\"; a worker offers one model")
	}
	if len(r.models) > 0 && !slices.ContainsFunc(r.models, func(pattern string) bool { return covers(pattern, w.Model) }) {
		return fmt.Errorf("its model %.80q is not among the configured discover.models", w.Model)
	}
	if !slices.Contains(r.protocols, w.Protocol) {
		return fmt.Errorf("its protocol is %.40q; it has to be one of %s", w.Protocol, strings.Join(r.protocols, ", "))
	}
	if w.Capacity < 0 || w.Capacity > maxNumber || w.Weight < 0 || w.Weight > maxNumber {
		return fmt.Errorf("its capacity and weight have to be between 0 and %d", maxNumber)
	}
	return r.checkURL(w.URL)
}

// covers reports whether a name, or a prefix with "*", covers a model.
func covers(pattern, model string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	return pattern == model || isPrefix && strings.HasPrefix(model, prefix)
}

func (r rules) checkURL(text string) error {
	if len(text) > maxURL {
		return fmt.Errorf("its url is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("its url cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("its url has to begin with http:// or https://")
	case u.User != nil:
		return errors.New("its url has a user; credentials do not belong there")
	case u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		return errors.New("its url has more than scheme, host and path")
	case strings.HasSuffix(u.Host, ":"):
		return errors.New("its url has an empty port")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("its url has the port %s", port)
		}
	}
	return r.checkHost(u.Hostname())
}

func (r rules) checkHost(host string) error {
	addr, err := netip.ParseAddr(host)
	if err == nil {
		return allowed(addr, r.networks)
	}
	if host == "" {
		return errors.New("its url has no host that can be dialled")
	}
	// The address of a name is known only when it is dialled.
	return fmt.Errorf("its host %.80q is not an address; write the address that it has", host)
}

// never lists addresses that no network allows: the metadata services of clouds, which
// hand out credentials, and the broadcast address.
func never() []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{169, 254, 169, 254}),                     // most clouds
		netip.AddrFrom4([4]byte{169, 254, 170, 2}),                       // AWS, for containers
		netip.AddrFrom4([4]byte{100, 100, 100, 200}),                     // Alibaba
		netip.AddrFrom16([16]byte{0xfd, 0, 0x0e, 0xc2, 14: 2, 15: 0x54}), // AWS, IPv6
		netip.AddrFrom4([4]byte{255, 255, 255, 255}),
	}
}

// allowed returns why an address must not be dialled, or nil.
func allowed(addr netip.Addr, networks []netip.Prefix) error {
	if addr.Zone() != "" {
		return fmt.Errorf("%s has a zone; workers have addresses that mean the same everywhere", addr)
	}
	addr = addr.Unmap()
	inner := embedded(addr)
	for _, a := range []netip.Addr{addr, inner} {
		if a.IsUnspecified() || a.IsMulticast() || slices.Contains(never(), a) {
			return fmt.Errorf("%s is never a worker", addr)
		}
	}
	for _, p := range networks {
		if p.Contains(addr) {
			return nil
		}
	}
	return fmt.Errorf("%s is in none of the allowed networks", addr)
}

// embedded returns the IPv4 address inside an IPv6 address of NAT64's well-known
// prefix, 6to4 or the IPv4-compatible form; else the address itself.
func embedded(a netip.Addr) netip.Addr {
	if !a.Is6() || a.IsLoopback() {
		return a
	}
	b := a.As16()
	switch {
	case netip.PrefixFrom(netip.AddrFrom16([16]byte{1: 0x64, 2: 0xff, 3: 0x9b}), 96).Contains(a),
		netip.PrefixFrom(netip.IPv6Unspecified(), 96).Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

// plain returns the networks with IPv4-mapped addresses as IPv4.
func plain(networks []netip.Prefix) ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(networks))
	for _, p := range networks {
		if !p.IsValid() {
			return nil, errors.New("networks: an entry is not a network; write one as 10.0.0.0/8")
		}
		if a := p.Addr(); a.Is4In6() {
			if p.Bits() < 96 {
				return nil, fmt.Errorf("networks: %s covers more than IPv4; write it as an IPv4 network", p)
			}
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}
