package relay

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestMemoryOfBodies checks that the bodies of all requests together get a limited amount
// of memory, twice their size, that small requests are served meanwhile, and that the memory is free again
// after the request.
func TestMemoryOfBodies(t *testing.T) {
	for name, size := range map[string]int{"large": 5 << 20, "medium": 512 << 10} {
		t.Run(name, func(t *testing.T) { testMemoryOfBodies(t, size) })
	}
}

func testMemoryOfBodies(t *testing.T, size int) {
	inBubble(t, func(t bubble) {
		const memory = 4 << 30 // half of it is for bodies and translation
		g := newGateway(t, func(g *gateway) { g.state.Overload = limit.Config{Memory: memory} })
		if _, err := g.relay.fleet.TakeMemory(t.Context(), int64(memory/2-3*size)); err != nil {
			t.Fatal(err)
		}
		release := make(chan bool)
		g.up.Answer(func(c *upstreamtest.Conn) {
			<-release
			c.Whole(200, "application/json", plainResponse)
		})
		large := strings.Replace(plainRequest, "[]", `[{"role":"user","content":"`+strings.Repeat("a", size)+`"}]`, 1)
		if len(large) < size {
			t.Fatal("the request is not large: ", len(large))
		}
		statuses := make(chan int, 4)
		send := func(body string) {
			go func() {
				resp, _, _ := g.post(t, chatPath, body)
				statuses <- resp.StatusCode
			}()
			synctest.Wait()
		}
		send(large)
		start := time.Now()
		send(large)
		if status := <-statuses; status != http.StatusServiceUnavailable || time.Since(start) != 5*time.Second {
			t.Errorf("the second large request has status %d after %v", status, time.Since(start))
		}
		send(plainRequest)
		close(release)
		if first, small := <-statuses, <-statuses; first != 200 || small != 200 {
			t.Errorf("statuses %d and %d", first, small)
		}
		send(large)
		if status := <-statuses; status != 200 {
			t.Errorf("a large request after the others has status %d", status)
		}
		time.Sleep(time.Second) // net/http waits before it closes a connection with an unread body
	})
}

// TestSmallBodiesTakeNoMemory checks that a small request is served while the bodies of others take all memory.
func TestSmallBodiesTakeNoMemory(t *testing.T) {
	inBubble(t, func(t bubble) {
		const memory = 4 << 30
		g := newGateway(t, func(g *gateway) { g.state.Overload = limit.Config{Memory: memory} })
		if _, err := g.relay.fleet.TakeMemory(t.Context(), memory/2); err != nil {
			t.Fatal(err)
		}
		g.up.Answer(upstreamtest.JSON(200, plainResponse))
		if resp, body, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusOK {
			t.Errorf("%s %s", resp.Status, body)
		}
	})
}

// TestMemoryOfTranslations checks that a request whose translation takes more memory than
// there is gets 413, and that a response like that is an error.
func TestMemoryOfTranslations(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, func(g *gateway) { g.state.Overload = limit.Config{Memory: 1 << 30} })
		parts := strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x"},`, 400_000), ",")
		resp, body, _ := g.post(t, messagesPath, `{"model":"real-chat","max_tokens":1,"messages":[{"role":"user","content":[`+parts+`]}]}`)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(body, "overload.memory") || len(g.up.Requests()) != 0 {
			t.Errorf("%s %.300s", resp.Status, body)
		}
		choices := strings.TrimSuffix(strings.Repeat(`{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"},`, 300_000), ",")
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Whole(200, "application/json", `{"id":"x","model":"m","choices":[`+choices+`]}`)
		})
		resp, body, _ = g.post(t, messagesPath, `{"model":"real-chat","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`)
		if resp.StatusCode < 400 || !strings.Contains(body, "memory") {
			t.Errorf("%s %.300s", resp.Status, body)
		}
	})
}
