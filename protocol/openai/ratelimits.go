package openai

import (
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

var (
	requestsNames = codec.RateLimitNames{Limit: "X-Ratelimit-Limit-Requests", Left: "X-Ratelimit-Remaining-Requests", Reset: "X-Ratelimit-Reset-Requests"}
	tokensNames   = codec.RateLimitNames{Limit: "X-Ratelimit-Limit-Tokens", Left: "X-Ratelimit-Remaining-Tokens", Reset: "X-Ratelimit-Reset-Tokens"}
)

// SetRateLimits sets OpenAI's headers for the limits of a caller. It has none for budgets.
func SetRateLimits(h http.Header, l codec.Limits, _ time.Time) {
	if l.Requests.Limit == 0 && l.Tokens.Limit == 0 {
		return
	}
	reset := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	values := make(codec.HeaderValues, 0, 6)
	values.SetRateLimit(h, &l.Requests, &requestsNames, reset)
	values.SetRateLimit(h, &l.Tokens, &tokensNames, reset)
}
