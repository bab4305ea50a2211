package codec

import (
	"net/http"
	"strconv"
	"time"
)

// Limits are the limits of a caller that its responses report.
type Limits struct {
	Requests, Tokens RateLimit
	Budget           Budget
}

// RateLimit is a limit per minute and what is left of it. The zero RateLimit is no limit.
type RateLimit struct {
	Limit, Left int64
	Reset       time.Duration // time until the whole limit is available again, if nothing else is used
}

// Budget is a limit on costs, in billionths of a dollar. The zero Budget is no limit.
type Budget struct {
	Limit, Spent int64
	Window       time.Duration // in which Spent was spent; 0: all time
	Reset        time.Time     // when the whole budget is available again, if nothing else is spent; zero: never
	Refused      bool          // it does not cover the request
}

// Used returns the fraction of the budget that is spent.
func (b *Budget) Used() float64 { return float64(b.Spent) / float64(b.Limit) }

// HeaderValues sets headers whose values share one allocation.
type HeaderValues []string

// Set sets a header. The name is in its canonical form.
func (v *HeaderValues) Set(h http.Header, name, value string) {
	*v = append(*v, value)
	last := len(*v)
	h[name] = (*v)[last-1 : last : last]
}

// RateLimitNames are the names of the headers for a RateLimit.
type RateLimitNames struct{ Limit, Left, Reset string }

// SetRateLimit sets the headers for a limit, if there is one. reset formats its Reset.
func (v *HeaderValues) SetRateLimit(h http.Header, l *RateLimit, n *RateLimitNames, reset func(time.Duration) string) {
	if l.Limit == 0 {
		return
	}
	v.Set(h, n.Limit, strconv.FormatInt(l.Limit, 10))
	v.Set(h, n.Left, strconv.FormatInt(l.Left, 10))
	v.Set(h, n.Reset, reset(l.Reset))
}
