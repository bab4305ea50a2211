package relay

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// upstreamLimits are the rate limits that the upstream of the tests sends.
var upstreamLimits = []string{"Anthropic-Ratelimit-Requests-Limit", "9999", "Anthropic-Ratelimit-Unified-Status", "allowed", "Anthropic-Priority-Input-Tokens-Limit", "9999",
	"X-Ratelimit-Limit-Requests", "9999", "X-Ratelimit-Remaining-Images", "9999"}

// limitsOf returns the rate limits of a response by name.
func limitsOf(h http.Header) map[string]string {
	found := map[string]string{}
	for n := range h {
		if name := strings.ToLower(n); strings.Contains(name, "ratelimit") || strings.Contains(name, "priority") {
			found[name] = h.Get(n)
		}
	}
	return found
}

// TestRateLimitHeaders checks that a caller with limits of the gateway's gets these in the
// headers of its dialect, and nothing about the account at the provider, in both lanes.
func TestRateLimitHeaders(t *testing.T) {
	c := sharedCase(t, "text")
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for _, stream := range []bool{false, true} {
			for name, limit := range map[string]quota.Limit{"minute": {Requests: 10, Tokens: 10_000}, "budget": {Budget: usage.Dollar, Window: time.Hour}, "none": {}} {
				books := newLedger(t)
				if !limit.IsZero() {
					books = newLedger(t, limit)
				}
				g := newGateway(t, books.use, speaking(upstream))
				g.up.Answer(func(k *upstreamtest.Conn) {
					if !stream {
						k.Whole(http.StatusOK, "application/json", c.whole(upstream), upstreamLimits...)
						return
					}
					k.BeginStream(upstreamLimits...)
					k.Chunk(c.stream(upstream))
					k.EndStream()
				})
				path, ask := simpleRequest(client, stream)
				resp, body, _ := g.post(t, path, ask)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("%s %s", resp.Status, body)
				}
				got := limitsOf(resp.Header)
				switch {
				case name == "none" && client == upstream:
					if got["x-ratelimit-limit-requests"] != "9999" || client == anthropicDialect && got["anthropic-ratelimit-unified-status"] != "allowed" {
						t.Errorf("%s, stream %v: %v", name, stream, got)
					}
				case name == "minute":
					wantLimits(t, client, got, stream)
				case name == "budget" && client == anthropicDialect:
					if got["anthropic-ratelimit-unified-status"] != "allowed" || got["anthropic-ratelimit-unified-overage-utilization"] != "0.00" || len(got) != 6 {
						t.Errorf("%s, stream %v: %v", name, stream, got)
					}
				case name == "budget" && len(got) > 0:
					t.Errorf("%s, stream %v: %v", name, stream, got)
				}
			}
		}
	})
}

// wantLimits checks the headers after the first request of a key with 10 requests and
// 10,000 tokens per minute. A stream still reserves its maximum.
func wantLimits(t *testing.T, client protocol.Name, got map[string]string, stream bool) {
	t.Helper()
	want := map[protocol.Name]string{anthropicDialect: "anthropic-ratelimit-KIND-WORD", chatDialect: "x-ratelimit-WORD-KIND", responsesDialect: "x-ratelimit-WORD-KIND"}[client]
	if want == "" {
		if len(got) > 0 {
			t.Errorf("%v", got)
		}
		return
	}
	value := func(kind, word string) string {
		return got[strings.NewReplacer("KIND", kind, "WORD", word).Replace(want)]
	}
	left := value("tokens", "remaining")
	if value("requests", "limit") != "10" || value("requests", "remaining") != "9" || value("tokens", "limit") != "10000" || len(left) != 4 || len(got) != 6 {
		t.Errorf("stream %v: %v", stream, got)
	}
	for _, kind := range []string{"requests", "tokens"} {
		reset := value(kind, "reset")
		wait, err := time.ParseDuration(reset)
		if client == anthropicDialect {
			var at time.Time
			at, err = time.Parse(time.RFC3339, reset)
			wait = time.Until(at)
		}
		if err != nil || wait < 55*time.Second || wait > 125*time.Second {
			t.Errorf("%s resets at %q", kind, reset)
		}
	}
}

// TestRateLimitHeadersOfRefusal checks the headers of a request that a limit of the
// gateway's refuses.
func TestRateLimitHeadersOfRefusal(t *testing.T) {
	books := newLedger(t, quota.Limit{Requests: 1})
	g := newGateway(t, books.use, speaking(anthropicDialect))
	g.up.Answer(upstreamtest.JSON(http.StatusOK, messagesResponse, upstreamLimits...))
	path, ask := simpleRequest(anthropicDialect, false)
	_, _, _ = g.post(t, path, ask)
	resp, body, _ := g.post(t, path, ask)
	h := resp.Header
	if resp.StatusCode != http.StatusTooManyRequests || h.Get("Anthropic-Ratelimit-Requests-Limit") != "1" || h.Get("Anthropic-Ratelimit-Requests-Remaining") != "0" ||
		h.Get("Anthropic-Ratelimit-Requests-Reset") == "" || h.Get("Retry-After") == "" || len(limitsOf(h)) != 3 {
		t.Errorf("%s %v %s", resp.Status, h, body)
	}
}

// TestBudgetHeaders checks what a Messages client learns about its budget: on success, on a
// refusal, and on an error of the upstream, which must not look like a limit. Other clients
// get the present form of the error.
func TestBudgetHeaders(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar / 50, Window: 24 * time.Hour})
	g := newGateway(t, books.use, speaking(anthropicDialect))
	path, ask := simpleRequest(anthropicDialect, false)
	g.up.Answer(upstreamtest.JSON(http.StatusBadRequest, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`, upstreamLimits...))
	if resp, body, _ := g.post(t, path, ask); resp.StatusCode != http.StatusBadRequest || len(limitsOf(resp.Header)) > 0 {
		t.Errorf("an upstream's error: %s %v %s", resp.Status, limitsOf(resp.Header), body)
	}

	const unified = "Anthropic-Ratelimit-Unified-"
	g.up.Answer(upstreamtest.JSON(http.StatusOK, strings.Replace(messagesResponse, `"output_tokens":`, `"output_tokens":80`, 1), upstreamLimits...)) // $0.00801
	for _, want := range []struct{ status, threshold, used string }{{"allowed", "", "0.40"}, {"allowed_warning", "0.75", "0.80"}, {"allowed_warning", "0.95", "0.99"}} {
		resp, body, _ := g.post(t, path, ask)
		h := resp.Header
		if resp.StatusCode != http.StatusOK || h.Get(unified+"Status") != want.status || h.Get(unified+"Overage-Status") != want.status || h.Get(unified+"Overage-Surpassed-Threshold") != want.threshold ||
			h.Get(unified+"Overage-Utilization") != want.used || h.Get(unified+"Reset") == "" || h.Get("X-Ratelimit-Limit-Requests") != "" {
			t.Errorf("%s %v %s, want %v", resp.Status, h, body, want)
		}
	}

	resp, body, _ := g.post(t, path, ask)
	h := resp.Header
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, `"type":"billing_error"`) || h.Get("Retry-After") == "" || h.Get("X-Should-Retry") != "false" || h.Get(unified+"Status") != "rejected" ||
		h.Get(unified+"Overage-Period") != "daily" || h.Get(unified+"Overage-Disabled-Reason") != "org_spend_cap_reached" || h.Get(unified+"Representative-Claim") != "" || h.Get(unified+"Overage-Status") != "" {
		t.Errorf("refused: %s %v %s", resp.Status, h, body)
	}
	path, ask = simpleRequest(chatDialect, false)
	resp, body, _ = g.post(t, path, ask)
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, "insufficient_quota") || len(limitsOf(resp.Header)) > 0 || resp.Header.Get("X-Should-Retry") != "" {
		t.Errorf("a chat client: %s %v %s", resp.Status, resp.Header, body)
	}
}
