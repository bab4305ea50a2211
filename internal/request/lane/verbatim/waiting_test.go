package verbatim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
	"github.com/isogloss-gateway/isogloss/sse"
)

const (
	token = `data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n"
	count = `data: {"id":"1","model":"m","choices":[],"usage":{"prompt_tokens":1}}` + "\n\n"
)

// TestUsageEvents reads batches with many events of usage that the client did not request, and moves no byte more than
// once for them.
func TestUsageEvents(t *testing.T) {
	for name, batch := range map[string]func(n int) string{
		"behind tokens":  func(n int) string { return strings.Repeat(token, n/2) + strings.Repeat(count, n/2) },
		"between tokens": func(n int) string { return strings.Repeat(token+count, n/2) },
		"before tokens":  func(n int) string { return strings.Repeat(count, n/2) + strings.Repeat(token, n/2) },
		"alone":          func(n int) string { return strings.Repeat(count, n/2) },
	} {
		t.Run(name, func(t *testing.T) {
			inputs := map[int]string{growth.Pieces: batch(growth.Pieces), growth.Pieces / 8: batch(growth.Pieces / 8)}
			growth.Linear(t, func(n int) {
				text := []byte(inputs[n])
				reader := sse.NewReader(bytes.NewReader(text), sse.Options{Buffer: make([]byte, 0, len(text)+1), MaxEvent: len(text)})
				b, err := reader.Batch()
				if err != nil || len(b.Raw) != len(text) {
					t.Fatal(err, len(b.Raw))
				}
				s := &stream{attempt: &attempt{tap: openaichat.Codec{}.NewTap(1)}, d: &exchange.Delivery{Record: &observe.Exchange{}}}
				s.request.AddedUsage = true
				left, over, fault := s.read(b, time.Time{})
				if over || fault != nil || string(left) != strings.ReplaceAll(inputs[n], count, "") {
					t.Fatalf("%d bytes are left, %v %v", len(left), over, fault)
				}
			})
		})
	}
}
