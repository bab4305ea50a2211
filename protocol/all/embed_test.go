package all

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestManyTexts checks that a small request for embeddings does not become a large one: of many empty texts, or of a
// title that is sent with each of them.
func TestManyTexts(t *testing.T) {
	item := func(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	bodies := map[protocol.Name]func(n int) string{
		protocol.OpenAIChat: func(n int) string { return `{"model":"m","input":[` + item(n, `""`) + `]}` },
		protocol.Gemini: func(n int) string {
			return `{"requests":[` + item(n-1, `{"content":{"parts":[{"text":""}]}}`) + `,{"model":"models/m","title":"` + strings.Repeat("t", 100<<10) + `","content":{"parts":[{"text":""}]}}]}`
		},
	}
	for _, in := range Dialects() {
		body := bodies[in.Name]
		if body == nil {
			continue
		}
		decode := func(n int) (*llm.EmbedRequest, *llm.Error) {
			return in.Embed.DecodeRequest(codec.Location{Route: &codec.Route{Verb: "batchEmbedContents"}}, []byte(body(n)))
		}
		for _, n := range []int{codec.MaxEmbedTexts + 1, 170_000} {
			if _, err := decode(n); err == nil || err.HTTPStatus() != http.StatusBadRequest || n < 3000 && !strings.Contains(err.Message, "2048") {
				t.Errorf("%s: %d texts: %v", in.Name, n, err)
			}
		}
		req, err := decode(codec.MaxEmbedTexts)
		if err != nil || len(req.Inputs) != codec.MaxEmbedTexts {
			t.Fatal(in.Name, err)
		}
		for _, out := range Dialects() {
			if out.Embed == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", in.Name, out.Name), func(t *testing.T) {
				sent, err := out.Embed.EncodeRequest(req, protocol.Target{Model: "m"}, &llm.Report{Mode: llm.Loose})
				if len(sent.Body) > 1<<20 || err != nil && err.Kind != llm.InvalidRequest {
					t.Errorf("%d bytes become %d, %v", len(body(codec.MaxEmbedTexts)), len(sent.Body), err)
				}
			})
		}
	}
}
