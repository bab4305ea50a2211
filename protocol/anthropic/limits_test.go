package anthropic

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/protocol"
)

func TestBudgetHeaders(t *testing.T) {
	reset := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		budget protocol.Budget
		want   string // names without their prefix
	}{
		"unused":  {protocol.Budget{Limit: 100, Window: time.Hour, Reset: reset}, "status: allowed, reset: 1800000000, overage-reset: 1800000000, representative-claim: overage, overage-status: allowed, overage-utilization: 0.00"},
		"74 %":    {protocol.Budget{Limit: 1000, Spent: 749}, "status: allowed, representative-claim: overage, overage-status: allowed, overage-utilization: 0.74"},
		"75 %":    {protocol.Budget{Limit: 1000, Spent: 750}, "status: allowed_warning, overage-surpassed-threshold: 0.75, representative-claim: overage, overage-status: allowed_warning, overage-utilization: 0.75"},
		"95 %":    {protocol.Budget{Limit: 100, Spent: 95}, "status: allowed_warning, overage-surpassed-threshold: 0.95, representative-claim: overage, overage-status: allowed_warning, overage-utilization: 0.95"},
		"too far": {protocol.Budget{Limit: 100, Spent: 130}, "status: allowed_warning, overage-surpassed-threshold: 0.95, representative-claim: overage, overage-status: allowed_warning, overage-utilization: 0.99"},
		"refused": {protocol.Budget{Limit: 100, Spent: 90, Window: 24 * time.Hour, Reset: reset, Refused: true},
			"status: rejected, overage-surpassed-threshold: 1, reset: 1800000000, overage-reset: 1800000000, overage-utilization: 1, overage-period: daily, overage-disabled-reason: org_spend_cap_reached, x-should-retry: false"},
		"refused for all time": {protocol.Budget{Limit: 100, Spent: 100, Refused: true},
			"status: rejected, overage-surpassed-threshold: 1, overage-utilization: 1, overage-disabled-reason: org_spend_cap_reached, x-should-retry: false"},
		"none": {},
	} {
		h := http.Header{}
		setRateLimits(h, protocol.Limits{Budget: c.budget}, time.Now())
		want := map[string]string{}
		for pair := range strings.SplitSeq(c.want, ", ") {
			if name, value, ok := strings.Cut(pair, ": "); ok {
				want[name] = value
			}
		}
		for n := range h {
			short := strings.TrimPrefix(strings.ToLower(n), "anthropic-ratelimit-unified-")
			if http.CanonicalHeaderKey(n) != n || want[short] != h.Get(n) {
				t.Errorf("%s: %s: %s, want %q", name, n, h.Get(n), want[short])
			}
		}
		if len(h) != len(want) {
			t.Errorf("%s: %v", name, h)
		}
	}
}

func TestPeriod(t *testing.T) {
	for window, want := range map[time.Duration]string{time.Hour: "daily", 24 * time.Hour: "daily", 7 * 24 * time.Hour: "weekly", 30 * 24 * time.Hour: "monthly", 365 * 24 * time.Hour: "monthly"} {
		if got := period(window); got != want {
			t.Errorf("%v: %s, want %s", window, got, want)
		}
	}
}
