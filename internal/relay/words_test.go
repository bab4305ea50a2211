package relay

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// In mid-stream there is no status that says whether asking again may help. Coding
// agents go by the words of the message: pi asks again after these and after few
// others, and gives the whole job up where it finds none.
var askAgain = regexp.MustCompile(`connection lost|ended without|timeout|service unavailable`)

func TestWordsInMidStream(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gateway)
		answer upstreamtest.Script
	}{
		"cut":    {func(*gateway) {}, upstreamtest.Break(textChunk)},
		"ended":  {func(*gateway) {}, upstreamtest.Stream(textChunk)},
		"silent": {within(never, soon, never), silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(textChunk) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, c.change)
			g.up.Answer(c.answer)
			resp, body, err := g.post(t, chatPath, streamAsk)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d, %v", resp.StatusCode, err)
			}
			if _, message := readErrorEvent(t, body, textChunk); !askAgain.MatchString(message) {
				t.Errorf("%q has no word that an agent asks again for", message)
			}
		})
	}
}
