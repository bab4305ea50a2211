package cache

import (
	"net/http"
	"strings"
)

// Control is what a client says about caching.
type Control int

// What a client may say.
const (
	Normal  Control = iota
	Refresh         // no-cache: ask upstream, and keep the new answer
	Bypass          // no-store: neither look nor keep
)

// ControlOf reads Cache-Control as RFC 9111 has it for requests. Of its directives
// these two are obeyed, and max-age=0, which is how older clients say no-cache.
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
