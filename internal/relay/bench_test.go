package relay

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// BenchmarkExchange is a whole exchange over real sockets, with the client's and
// the upstream's part in it. What matters is how the lanes and the sizes compare.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10} {
		text := strings.Repeat("word ", size/5)
		for _, lane := range []struct {
			name, path, body string
			counted          bool // there is a ledger, and the key has a budget
		}{
			{"verbatim", chatPath, `{"model":"real-chat","messages":[{"role":"user","content":"` + text + `"}]}`, false},
			{"counted", chatPath, `{"model":"real-chat","messages":[{"role":"user","content":"` + text + `"}]}`, true},
			{"renamed", chatPath, `{"model":"alias-chat","messages":[{"role":"user","content":"` + text + `"}]}`, false},
			{"translated", "/v1/messages", `{"model":"real-chat","max_tokens":9,"messages":[{"role":"user","content":"` + text + `"}]}`, false},
		} {
			b.Run(fmt.Sprintf("%s/%dKB", lane.name, size>>10), func(b *testing.B) {
				var changes []func(*gateway)
				if lane.counted {
					changes = append(changes, newLedger(b, quota.Limit{Budget: 1 << 60}).use)
				}
				g := newGateway(b, changes...)
				g.up.Answer(upstreamtest.JSON(http.StatusOK, plainAnswer))
				b.SetBytes(int64(len(lane.body)))
				b.ReportAllocs()
				for b.Loop() {
					if resp, got, err := g.post(b, lane.path, lane.body); err != nil || resp.StatusCode != http.StatusOK {
						b.Fatal(err, got)
					}
				}
			})
		}
	}
}

// BenchmarkOpenStream is what it takes to open a stream, get its first event and
// leave it, with the memory that is taken for it.
func BenchmarkOpenStream(b *testing.B) {
	event := `data: {"id":"c1","object":"chat.completion.chunk","created":1770000000,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	for name, path := range map[string]string{"verbatim": chatPath, "translated": "/v1/messages"} {
		b.Run(name, func(b *testing.B) {
			g := newGateway(b)
			g.up.Answer(func(c *upstreamtest.Conn) {
				c.BeginStream()
				c.Chunk(event)
				c.EndStream()
			})
			body := `{"model":"real-chat","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 400) + `"}]}`
			b.ReportAllocs()
			for b.Loop() {
				if resp, got, err := g.post(b, path, body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(err, got)
				}
			}
		})
	}
}

// BenchmarkBooks is what a ledger adds to a request: its row is begun and ended on
// the disk, and its budget is reserved from and settled.
func BenchmarkBooks(b *testing.B) {
	for name, limits := range map[string][]quota.Limit{
		"no limits": nil,
		"a budget":  {{Budget: 1 << 60}},
		"all three": {{Budget: 1 << 60, Requests: 1 << 50}, {Budget: 1 << 60, Tokens: 1 << 50}, {Budget: 1 << 60, Concurrency: 1 << 20}},
	} {
		b.Run(name, func(b *testing.B) {
			books := newLedger(b, limits...)
			for i := range books.caller.Accounts {
				books.caller.Accounts[i].ID = fmt.Sprint("account:", i)
			}
			g := newGateway(b, books.use)
			req := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(plainAsk))
			req.Header.Set("Content-Type", "application/json")
			req.Host, req.RemoteAddr = "localhost", "127.0.0.1:1"
			x := g.relay.open(g.state, httptest.NewRecorder(), req)
			for _, step := range []func(*exchange) *llm.Error{g.relay.identify, g.relay.accept, g.relay.admit, g.relay.plan} {
				if err := step(x); err != nil {
					b.Fatal(err)
				}
			}
			x.name(&x.line[0].target)
			x.target, x.seen.Status = x.line[0].target, http.StatusOK
			b.ReportAllocs()
			for b.Loop() {
				if err := g.relay.reserve(x); err != nil {
					b.Fatal(err)
				}
				x.asked = time.Now()
				x.charge()
			}
			b.StopTimer()
			x.permit.Release()
			x.seen.End()
		})
	}
}
