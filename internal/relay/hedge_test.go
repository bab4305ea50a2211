package relay

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/route"
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
