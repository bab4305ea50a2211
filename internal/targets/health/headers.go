package health

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// farthest bounds the times that are read from headers, so that their sums do not
// overflow. Their uses have tighter bounds.
const farthest = 24 * time.Hour

// limits lists the rate-limit headers of upstreams as pairs of canonical names: the header
// for what remains of a limit, and the header for the time of its reset.
var limits = [...]struct{ remaining, reset string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}, // OpenAI, and most that speak its dialect
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
}

// Some vendors use a prefix of their own and put these words at the end, such as
// Vendor-Ratelimit-Tokens-Remaining and Vendor-Ratelimit-Tokens-Reset.
const (
	rateLimitWord   = "-Ratelimit-"
	remainingSuffix = "-Remaining"
	resetSuffix     = "-Reset"
)

// retryAfter reads Retry-After-Ms or Retry-After; 0 without either.
func retryAfter(h http.Header, f *Fleet) time.Duration {
	if len(h) == 0 {
		return 0
	}
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, ok := number(value(h, name)); ok {
			return span(ms / 1000)
		}
	}
	return wait(value(h, "Retry-After"), h, f)
}

// exhausted returns the time until the last exhausted limit is reset; 0 if none is
// exhausted.
func exhausted(h http.Header, f *Fleet) time.Duration {
	if len(h) == 0 {
		return 0
	}
	var longest time.Duration
	for i := range limits {
		if value(h, limits[i].remaining) == "0" {
			longest = max(longest, wait(value(h, limits[i].reset), h, f))
		}
	}
	for name := range h {
		if limit, ok := strings.CutSuffix(name, remainingSuffix); ok && strings.Contains(name, rateLimitWord) && value(h, name) == "0" {
			longest = max(longest, wait(value(h, limit+resetSuffix), h, f))
		}
	}
	return longest
}

// wait parses the forms in which upstreams write a time: seconds, a duration
// ("6m0s"), RFC 3339, an HTTP date, or seconds or milliseconds since 1970. It returns
// 0 for anything else.
func wait(s string, h http.Header, f *Fleet) time.Duration {
	if s == "" {
		return 0
	}
	if n, ok := number(s); ok {
		switch {
		case n >= 1e12:
			return until(time.UnixMilli(int64(min(n, 1e15))), h, f)
		case n >= 1e9:
			return until(time.Unix(int64(n), 0), h, f)
		}
		return span(n)
	}
	if d, err := time.ParseDuration(s); err == nil {
		return min(max(d, 0), farthest)
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return until(t, h, f)
	}
	if t, err := http.ParseTime(s); err == nil {
		return until(t, h, f)
	}
	return 0
}

// until returns the time from now until t. Now is the response's Date, if it has one,
// because the upstream's clock may differ by minutes.
func until(t time.Time, h http.Header, f *Fleet) time.Duration {
	now, err := http.ParseTime(value(h, "Date"))
	if err != nil {
		now = f.wall()
	}
	return min(max(t.Sub(now), 0), farthest)
}

func number(s string) (float64, bool) {
	if s == "" { // the usual case; ParseFloat would allocate an error
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && n >= 0 && !math.IsInf(n, 0)
}

func span(seconds float64) time.Duration {
	return time.Duration(min(seconds, farthest.Seconds()) * float64(time.Second))
}

// value returns a header by its canonical name.
func value(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return strings.TrimSpace(v[0])
	}
	return ""
}
