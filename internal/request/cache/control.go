package cache

import (
	"net/http"
	"strings"
)

// Control is what a client requests with Cache-Control.
type Control int

// The values of Control.
const (
	Normal  Control = iota
	Refresh         // no-cache: send the request upstream and store the new response
	Bypass          // no-store: neither read nor store
)

// ControlOf reads Cache-Control as RFC 9111 defines it for requests. It obeys no-store,
// no-cache and max-age=0, which older clients send for no-cache.
func ControlOf(h http.Header) Control {
	c := Normal
	for _, line := range h.Values("Cache-Control") {
		for d := range strings.SplitSeq(line, ",") {
			switch strings.ToLower(strings.TrimSpace(d)) {
			case "no-store":
				return Bypass
			case "no-cache", "max-age=0":
				c = Refresh
			}
		}
	}
	return c
}
