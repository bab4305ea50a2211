package relay

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestPanicInHedgedAttempt checks that a panic of a hedged attempt, which has a goroutine
// of its own, fails its request with an error in the client's dialect and is logged once.
func TestPanicInHedgedAttempt(t *testing.T) {
	inBubble(t, func(t bubble) {
		p := newPair(t, func(p *pair) { p.route.Hedge = route.Hedge{Quantile: 0.9, Share: 1} })
		p.up.Answer(answerIn(10*time.Millisecond, "quick"))
		p.two.Answer(answerIn(10*time.Millisecond, "second"))
		p.learnLatency(t)
		p.up.Answer(answerIn(time.Millisecond, "quick")) // before the second attempt would start
		d := p.relay.dialects.ByName[protocol.OpenAIChat]
		sound := d.Codec
		d.Codec = faulty{at: "NewStreamDecoder"}
		resp, body, err := p.post(t, chatPath, pairStream)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := readError(t, body); resp.StatusCode != http.StatusInternalServerError || code != "internal_error" || strings.Contains(body, "canary") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		p.wantIdle(t)
		for text, want := range map[string]int{`"msg":"panic"`: 1, `"error_kind":"internal"`: 1, "canary": 0} {
			if n := strings.Count(p.log.String(), text); n != want {
				t.Errorf("%s is in the log %d times:\n%s", text, n, p.log.String())
			}
		}
		d.Codec = sound
		if _, body, err := p.post(t, chatPath, pairStream); err != nil || !strings.Contains(body, "quick") {
			t.Errorf("the next request: %v %s", err, body)
		}
	})
}

// TestHedgedAttemptsCount checks that both attempts of a hedged request count: for the
// limit of attempts and in the headers and the log.
func TestHedgedAttemptsCount(t *testing.T) {
	late := func(d time.Duration, script upstreamtest.Script) upstreamtest.Script {
		return func(c *upstreamtest.Conn) {
			time.Sleep(d)
			script(c)
		}
	}
	down, cut := upstreamtest.JSON(503, busy), upstreamtest.Break(": hello\n\n")
	for name, c := range map[string]struct {
		one, two upstreamtest.Script
		limit    int
		attempts string
		sent     [2]int
	}{
		"both fail":                              {late(time.Second, down), late(2*time.Second, down), 2, `2;failed="two/x=503 up/x=503"`, [2]int{1, 1}},
		"the second fails sooner":                {late(2*time.Second, down), down, 2, `2;failed="two/x=503 up/x=503"`, [2]int{1, 1}},
		"the first fails, the second responds":   {late(time.Second, down), late(2*time.Second, good("b")), 2, `2;failed="up/x=503"`, [2]int{1, 1}},
		"the second is not safe to send again":   {late(time.Second, cut), late(2*time.Second, cut), 4, `2;failed="two/x=upstream_truncated up/x=upstream_truncated"`, [2]int{1, 1}},
		"the first responds, the second is late": {late(time.Second, good("a")), late(time.Minute, good("b")), 2, `2`, [2]int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				p := newPair(t, func(p *pair) {
					p.route.Hedge = route.Hedge{Quantile: 0.9, Share: 1}
					p.state.Retries.Attempts = c.limit
				})
				p.up.Answer(answerIn(10*time.Millisecond, "quick"))
				p.two.Answer(answerIn(10*time.Millisecond, "second"))
				p.learnLatency(t)
				before := [2]int{len(p.up.Requests()), len(p.two.Requests())}
				p.up.Answer(c.one)
				p.two.Answer(c.two)
				resp, _, _ := p.post(t, chatPath, pairStream)
				if got := resp.Header.Get("Isogloss-Attempts"); got != c.attempts {
					t.Errorf("Isogloss-Attempts: %s, want %s", got, c.attempts)
				}
				if got := [2]int{len(p.up.Requests()) - before[0], len(p.two.Requests()) - before[1]}; got != c.sent {
					t.Errorf("sent %v requests, want %v", got, c.sent)
				}
			})
		})
	}
}
