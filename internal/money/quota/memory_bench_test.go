package quota

import (
	"context"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

func benchAsk() Request {
	l := Limit{Requests: 1 << 40, Tokens: 1 << 50, Concurrency: 1 << 30, Budget: 1 << 60}
	w := l
	w.Window = 24 * time.Hour
	return Request{ID: "11111111-2222-3333-4444-555555555555", Org: "o", Accounts: []Account{{"key:k", l}, {"team:o/t", w}, {"org:o", l}}, Tokens: 1000, Cost: usage.Dollar / 1000}
}

func BenchmarkMemory(b *testing.B) {
	k := newMemory(Options{})
	defer k.Close()
	a := benchAsk()
	b.ReportAllocs()
	for b.Loop() {
		h, refusal := k.Reserve(context.Background(), a)
		if refusal != nil {
			b.Fatal(refusal)
		}
		settle(h, 500, usage.Dollar/2000)
	}
}
