package relay

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// BenchmarkExchange measures one exchange over real sockets, including the work of the
// client and the fake upstream. Compare its cases with each other, not with other
// benchmarks.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10} {
		text := strings.Repeat("word ", size/5)
		for _, lane := range []struct {
			name, path, body string
			counted          bool // with a ledger, and a budget on the key
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
				g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
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

// BenchmarkOpenStream opens a stream, reads its first event and disconnects. It reports
// the memory per open stream.
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

// BenchmarkBooks measures the cost of a ledger: writing the row's start and end to disk,
// and the reservation and settlement of a budget.
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
			req := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(plainRequest))
			req.Header.Set("Content-Type", "application/json")
			req.Host, req.RemoteAddr = "localhost", "127.0.0.1:1"
			e, _, _ := g.relay.dialects.Locate(req)
			q := g.relay.newRequest(g.state, e, httptest.NewRecorder(), req)
			for _, step := range []func() *llm.Error{q.identify, q.accept, q.admit, q.match, q.choose} {
				if err := step(); err != nil {
					b.Fatal(err)
				}
			}
			q.use(&attempt{target: &q.candidates[0].Target})
			q.Result.Status = http.StatusOK
			b.ReportAllocs()
			for b.Loop() {
				if err := q.reserve(); err != nil {
					b.Fatal(err)
				}
				q.attempt.sentAt = time.Now()
				q.Charge()
			}
			b.StopTimer()
			q.slot.Release()
			q.Record.End()
		})
	}
}

// BenchmarkLimitHeaders measures the headers with the limits of a caller.
func BenchmarkLimitHeaders(b *testing.B) {
	for name, limits := range map[string][]quota.Limit{
		"no limits": nil,
		"minute":    {{Requests: 1 << 50, Tokens: 1 << 50}},
		"a budget":  {{Budget: 1 << 60, Window: 24 * time.Hour}},
		"all three": {{Budget: 1 << 60, Requests: 1 << 50}, {Budget: 1 << 60, Tokens: 1 << 50}, {Budget: 1 << 60, Concurrency: 1 << 20}},
	} {
		b.Run(name, func(b *testing.B) {
			books := newLedger(b, limits...)
			g := newGateway(b, books.use, speaking(anthropicDialect))
			path, body := simpleRequest(anthropicDialect, false)
			req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			req.Host, req.RemoteAddr = "localhost", "127.0.0.1:1"
			e, _, _ := g.relay.dialects.Locate(req)
			q := g.relay.newRequest(g.state, e, httptest.NewRecorder(), req)
			for _, step := range []func() *llm.Error{q.identify, q.accept, q.admit, q.match, q.choose, q.reserve} {
				if err := step(); err != nil {
					b.Fatal(err)
				}
			}
			h := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				clear(h)
				q.SetHeaders(h)
			}
			b.StopTimer()
			q.Charge()
			q.slot.Release()
			q.Record.End()
		})
	}
}
