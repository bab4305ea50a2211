package observe

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// BenchmarkExchange measures one ordinary exchange: all metrics and a JSON line, no
// collector.
func BenchmarkExchange(b *testing.B) {
	o, err := New(Options{Log: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	ctx, header, upstream := context.Background(), http.Header{}, http.Header{}
	usage := &llm.Usage{Input: 100, CacheRead: 40, Output: 200, Reasoning: 30}
	b.ReportAllocs()
	for b.Loop() {
		_, x := o.Begin(ctx, "0b7e6bd2-9f35-4b52-8b6c-0c1d5f3a9e11", "chat_completions", "openai-chat", header)
		x.Requested, x.Target, x.Attempts = "fast", "local/llama-3-70b", 1
		x.Route("fast", "local", x.Target)
		x.Inject(upstream)
		now := time.Now()
		x.Responded(200, now)
		x.Token(now)
		x.Status, x.UpstreamID = 200, "chatcmpl-123"
		x.Finish, x.Usage, x.Fidelity = "stop", usage, "exact"
		x.BytesIn, x.BytesOut = 2048, 1200
		x.End()
	}
}

// BenchmarkToken measures one event of a stream.
func BenchmarkToken(b *testing.B) {
	o, err := New(Options{Log: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	_, x := o.Begin(context.Background(), "id", "chat_completions", "openai-chat", nil)
	x.Route("fast", "local", x.Target)
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(20 * time.Millisecond)
		x.Token(at)
	}
}
