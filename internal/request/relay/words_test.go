package relay

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// retryWords matches the error messages after which coding agents retry. In mid-stream
// there is no status, so they decide by the message: pi retries after these words and few
// others, and ends its task otherwise.
var retryWords = regexp.MustCompile(`connection lost|ended without|timeout|service unavailable`)

func TestMidStreamErrorMessages(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gateway)
		answer upstreamtest.Script
	}{
		"cut":    {func(*gateway) {}, upstreamtest.Break(textChunk)},
		"ended":  {func(*gateway) {}, upstreamtest.Stream(textChunk)},
		"silent": {within(never, soon, never), silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(textChunk) })},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				g := newGateway(t, c.change)
				g.up.Answer(c.answer)
				resp, body, err := g.post(t, chatPath, streamRequest)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d, %v", resp.StatusCode, err)
				}
				if _, message := readErrorEvent(t, body, textChunk); !retryWords.MatchString(message) {
					t.Errorf("%q has no word after which an agent retries", message)
				}
			})
		})
	}
}
