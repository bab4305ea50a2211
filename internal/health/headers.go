package health

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// farthest bounds the times that are read from headers, so that sums of them do
// not overflow. What they are used for has closer bounds.
const farthest = 24 * time.Hour

// limits are the rate limits that upstreams tell, as pairs of canonical header
// names: what remains, and when it is whole again.
var limits = [...]struct{ remaining, reset string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}, // OpenAI, and most that speak its dialect
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// retryAfter is how long the upstream wants to be left alone; 0 where it does
// not say so.
func retryAfter(h http.Header, f *Fleet) time.Duration {
	if len(h) == 0 {
		return 0
	}
	if ms, ok := number(value(h, "Retry-After-Ms")); ok {
		return span(ms / 1000)
	}
	return wait(value(h, "Retry-After"), h, f)
}

// exhausted is the time until the last limit of which nothing remains is reset;
// 0 where something remains of all.
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
	return longest
}

// wait reads the forms in which upstreams write when: seconds, a duration
// ("6m0s"), a time in RFC 3339 or in HTTP's form, seconds or milliseconds since
// 1970. What is none of them is 0.
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

// until measures a time against the clock that told it, where the answer has
// that clock's time: ours may be minutes off.
func until(t time.Time, h http.Header, f *Fleet) time.Duration {
	now, err := http.ParseTime(value(h, "Date"))
	if err != nil {
		now = f.wall()
	}
	return min(max(t.Sub(now), 0), farthest)
}

func number(s string) (float64, bool) {
	if s == "" { // by far the most common, and an error would be allocated for it
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && n >= 0 && !math.IsInf(n, 0)
}

func span(seconds float64) time.Duration {
	return time.Duration(min(seconds, farthest.Seconds()) * float64(time.Second))
}

// value is a header by its canonical name.
func value(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return strings.TrimSpace(v[0])
	}
	return ""
}
