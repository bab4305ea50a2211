package anthropic

import (
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

// limitPrefix begins the names of the headers with limits, unified those for a budget.
const (
	limitPrefix = "Anthropic-Ratelimit-"
	unified     = limitPrefix + "Unified-"
)

var (
	requestsNames = codec.RateLimitNames{Limit: limitPrefix + "Requests-Limit", Left: limitPrefix + "Requests-Remaining", Reset: limitPrefix + "Requests-Reset"}
	tokensNames   = codec.RateLimitNames{Limit: limitPrefix + "Tokens-Limit", Left: limitPrefix + "Tokens-Remaining", Reset: limitPrefix + "Tokens-Reset"}
)

// setRateLimits sets the headers for the limits of a caller.
func setRateLimits(h http.Header, l codec.Limits, now time.Time) {
	size := 0
	for _, limit := range []int64{l.Requests.Limit, l.Tokens.Limit} {
		if limit > 0 {
			size += 3
		}
	}
	if l.Budget.Limit > 0 {
		size += budgetHeaders
	}
	if size == 0 {
		return
	}
	values := make(codec.HeaderValues, 0, size)
	reset := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	values.SetRateLimit(h, &l.Requests, &requestsNames, reset)
	values.SetRateLimit(h, &l.Tokens, &tokensNames, reset)
	if l.Budget.Limit > 0 {
		setBudget(h, &l.Budget, &values)
	}
}

// budgetHeaders is the largest number of headers that setBudget sets.
const budgetHeaders = 8

// setBudget sets the headers from which Claude Code shows how much of a budget is used. The
// response that refuses a request has no Overage-Status and no Representative-Claim: with
// them Claude Code writes a text of its own in place of the error's.
func setBudget(h http.Header, b *codec.Budget, values *codec.HeaderValues) {
	state, threshold := standing(b)
	values.Set(h, unified+"Status", state)
	if threshold != "" {
		values.Set(h, unified+"Overage-Surpassed-Threshold", threshold)
	}
	if !b.Reset.IsZero() {
		at := strconv.FormatInt(b.Reset.Unix(), 10)
		values.Set(h, unified+"Reset", at)
		values.Set(h, unified+"Overage-Reset", at)
	}
	if !b.Refused {
		values.Set(h, unified+"Representative-Claim", "overage") // a claim that implies no window
		values.Set(h, unified+"Overage-Status", state)
		values.Set(h, unified+"Overage-Utilization", strconv.FormatFloat(float64(min(percent(b), 99))/100, 'f', 2, 64))
		return
	}
	values.Set(h, unified+"Overage-Utilization", "1")
	if b.Window > 0 {
		values.Set(h, unified+"Overage-Period", period(b.Window))
	}
	values.Set(h, unified+"Overage-Disabled-Reason", "org_spend_cap_reached")
	values.Set(h, "X-Should-Retry", "false")
}

// standing returns the state of a budget and the threshold that it has passed, if any.
func standing(b *codec.Budget) (state, threshold string) {
	used := b.Used()
	switch {
	case b.Refused:
		return "rejected", "1"
	case used >= 0.95:
		return "allowed_warning", "0.95"
	case used >= 0.75:
		return "allowed_warning", "0.75"
	}
	return "allowed", ""
}

// period returns the name of the calendar period that is nearest to a window.
func period(window time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case window <= 3*day:
		return "daily"
	case window <= 14*day:
		return "weekly"
	}
	return "monthly"
}
