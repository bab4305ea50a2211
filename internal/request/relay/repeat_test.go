package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/request/cache"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestIdempotencyKeyWithReferences checks that a request with an Idempotency-Key and a reference to a
// stored response is the same request where that response is not stored.
func TestIdempotencyKeyWithReferences(t *testing.T) {
	once, err := cache.NewOnce(cache.NewRecords(1<<20), cache.OnceOptions{Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(once.Close)
	books := newLedger(t)
	g := newGateway(t, speaking(chatDialect), storingResponses, func(g *gateway) {
		books.use(g)
		g.state.Books.Once = once
	})
	g.up.Answer(upstreamtest.JSON(200, chatResponse))
	one := g.createResponse(t, false, item{"input": "Hi"})
	ask := `{"model":"m","previous_response_id":"` + one.ID + `","input":"And?"}`
	send := func() (*http.Response, string) {
		resp, body, err := g.post(t, "/v1/responses", ask, "Idempotency-Key", "k1")
		if err != nil {
			t.Fatal(err)
		}
		return resp, body
	}
	resp, want := send()
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(g.up.Last(t).Body), "Hi") {
		t.Fatalf("%d %s", resp.StatusCode, want)
	}
	g.relay.responses = conversation.NewResponses() // as on another node
	g.relay.responses.SetMaxBytes(64 << 20)
	before := len(g.up.Requests())
	resp, got := send()
	if resp.StatusCode != http.StatusOK || got != want || resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s\nwant %s", resp.StatusCode, got, want)
	}
	if n := len(g.up.Requests()) - before; n != 0 {
		t.Errorf("the upstream got %d more requests", n)
	}
}
