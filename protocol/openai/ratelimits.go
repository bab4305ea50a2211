package openai

import (
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// SetRateLimits sets OpenAI's headers for the limits of a caller.
func SetRateLimits(h http.Header, requests, tokens protocol.RateLimit, _ time.Time) {
	values := make([]string, 0, 6) // one allocation for all headers
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if l := requests; l.Limit > 0 {
		set("X-Ratelimit-Limit-Requests", strconv.FormatInt(l.Limit, 10))
		set("X-Ratelimit-Remaining-Requests", strconv.FormatInt(l.Left, 10))
		set("X-Ratelimit-Reset-Requests", l.Reset.Round(time.Millisecond).String())
	}
	if l := tokens; l.Limit > 0 {
		set("X-Ratelimit-Limit-Tokens", strconv.FormatInt(l.Limit, 10))
		set("X-Ratelimit-Remaining-Tokens", strconv.FormatInt(l.Left, 10))
		set("X-Ratelimit-Reset-Tokens", l.Reset.Round(time.Millisecond).String())
	}
}
