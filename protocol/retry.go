package protocol

import (
	"net/http"
	"strconv"
	"time"
)

// longestWait is more than any caller waits; what is longer says no more than it.
const longestWait = 24 * time.Hour

// RetryAfter is how long an answer's headers ask to wait, at most a day; 0 if they
// do not say. The date form of Retry-After is not read: a codec has no clock.
func RetryAfter(h http.Header) time.Duration {
	if d, ok := wait(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	d, _ := wait(h.Get("Retry-After"), time.Second)
	return d
}

func wait(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) { // not a number is neither
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(longestWait))), true
}
