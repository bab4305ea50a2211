// Package safeurl tells the URLs to which secrets may be sent.
package safeurl

import (
	"net/netip"
	"net/url"
)

// IsSafe reports whether nobody can read on the way what is sent to a URL: it is https, or on this
// machine.
func IsSafe(u *url.URL) bool {
	switch u.Scheme {
	case "https":
		return true
	case "http":
		return IsLoopback(u.Hostname())
	}
	return false
}

// IsLoopback reports whether only this machine can reach the host. Names other than
// localhost count as reachable, because their addresses may change.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
