package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// BenchmarkExchange is a whole exchange over real sockets, with the client's and
// the upstream's part in it. What matters is how the lanes and the sizes compare.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10} {
		text := strings.Repeat("word ", size/5)
		for _, lane := range []struct{ name, path, body string }{
			{"verbatim", chatPath, `{"model":"real-chat","messages":[{"role":"user","content":"` + text + `"}]}`},
			{"renamed", chatPath, `{"model":"alias-chat","messages":[{"role":"user","content":"` + text + `"}]}`},
			{"translated", "/v1/messages", `{"model":"real-chat","max_tokens":9,"messages":[{"role":"user","content":"` + text + `"}]}`},
		} {
			b.Run(fmt.Sprintf("%s/%dKB", lane.name, size>>10), func(b *testing.B) {
				g := newGateway(b)
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
