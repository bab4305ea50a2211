package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestClosedIdleConnections checks that no request fails, whatever its size, when the
// upstream closes each connection after a response without announcing it.
func TestClosedIdleConnections(t *testing.T) {
	for _, size := range []int{10, 2 << 10, 5 << 10, 300 << 10} {
		t.Run(fmt.Sprintf("%dB", size), func(t *testing.T) {
			g := newGateway(t)
			g.up.Answer(func(c *upstreamtest.Conn) {
				c.BeginStream()
				c.Chunk(lastChunk + "\n\ndata: [DONE]\n\n")
				c.EndStream()
			})
			body := `{"model":"real-chat","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
			for i := range 100 {
				resp, got, err := g.post(t, chatPath, body)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("request %d: %v %s", i, err, got)
				}
				if sent := g.up.Last(t).Body; string(sent) != body {
					t.Fatalf("request %d: the upstream got %d bytes of %d", i, len(sent), len(body))
				}
			}
		})
	}
}
