package openai

import (
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// SetRateLimits sets OpenAI's headers for the limits of a caller.
func SetRateLimits(h http.Header, requests, tokens protocol.RateLimit, _ time.Time) {
	for kind, l := range map[string]protocol.RateLimit{"Requests": requests, "Tokens": tokens} {
		if l.Limit > 0 {
			h["X-Ratelimit-Limit-"+kind] = []string{strconv.FormatInt(l.Limit, 10)}
			h["X-Ratelimit-Remaining-"+kind] = []string{strconv.FormatInt(l.Left, 10)}
			h["X-Ratelimit-Reset-"+kind] = []string{l.Reset.Round(time.Millisecond).String()}
		}
	}
}
