package anthropic

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

func TestBudgetHeaders(t *testing.T) {
	reset := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		budget codec.Budget
		want   string // names without their prefix
	}{
		"unused":  {codec.Budget{Limit: 100, Window: time.Hour, Reset: reset}, "status: allowed, reset: 1800000000, overage-reset: 1800000000, representative-claim: overage, overage-status: allowed, overage-utilization: 0.00"},
		"74 %":    {codec.Budget{Limit: 1000, Spent: 749}, "status: allowed, representative-claim: overage, overage-status: allowed, overage-utilization: 0.74"},
		"75 %":    {codec.Budget{Limit: 1000, Spent: 750}, "status: allowed_warning, overage-surpassed-threshold: 0.75, representative-claim: overage, overage-status: allowed_warning, overage-utilization: 0.75"},
		"95 %":    {codec.Budget{Limit: 100, Spent: 95}, "status: allowed_warning, overage-surpassed-threshold: 0.95, representative-claim: overage, overage-status: allowed_warning, overage-utilization: 0.95"},
		"too far": {codec.Budget{Limit: 100, Spent: 130}, "status: allowed_warning, overage-surpassed-threshold: 0.95, representative-claim: overage, overage-status: allowed_warning, overage-utilization: 0.99"},
		"refused": {codec.Budget{Limit: 100, Spent: 90, Window: 24 * time.Hour, Reset: reset, Refused: true},
			"status: rejected, overage-surpassed-threshold: 1, reset: 1800000000, overage-reset: 1800000000, overage-utilization: 1, overage-period: daily, overage-disabled-reason: org_spend_cap_reached, x-should-retry: false"},
		"refused for all time": {codec.Budget{Limit: 100, Spent: 100, Refused: true},
			"status: rejected, overage-surpassed-threshold: 1, overage-utilization: 1, overage-disabled-reason: org_spend_cap_reached, x-should-retry: false"},
		"none": {},
	} {
		h := http.Header{}
		setRateLimits(h, codec.Limits{Budget: c.budget}, time.Now())
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

func TestEncodeSpending(t *testing.T) {
	const cent = 10_000_000
	day, reset := 24*time.Hour, time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		spending codec.Spending
		want     string
	}{
		"a budget": {codec.Spending{Budgets: []codec.Budget{{Limit: 50_000 * cent, Spent: 27_140*cent + 1, Window: 30 * day, Reset: reset}}},
			`{"extra_usage":{"is_enabled":true,"monthly_limit":50000,"used_credits":27140,"utilization":54,"currency":"USD"},"limits":[{"kind":"spend","group":"monthly","percent":54,"resets_at":"2026-10-01T00:00:00.000Z","severity":"normal","is_active":true}]}`},
		"several": {codec.Spending{Budgets: []codec.Budget{{Limit: 100 * cent, Spent: 80 * cent, Window: day, Reset: reset}, {Limit: 200 * cent, Spent: 230 * cent}}},
			`{"extra_usage":{"is_enabled":true,"monthly_limit":200,"used_credits":230,"utilization":115,"currency":"USD"},"limits":[{"kind":"spend","group":"daily","percent":80,"resets_at":"2026-10-01T00:00:00.000Z","severity":"warning","is_active":false},{"kind":"spend","group":"total","percent":115,"resets_at":null,"severity":"critical","is_active":true}]}`},
		"none": {codec.Spending{Day: 3 * cent, Week: 20 * cent, Month: 100 * cent},
			`{"extra_usage":{"is_enabled":true,"monthly_limit":null,"used_credits":100,"utilization":null,"currency":"USD","daily":{"limit":null,"used_credits":3,"utilization":null},"weekly":{"limit":null,"used_credits":20,"utilization":null}},"limits":[]}`},
	} {
		if got := string(encodeSpending(c.spending)); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
