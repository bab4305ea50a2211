package relay

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// fiveDialects are the dialects of text and Converse.
var fiveDialects = append([]protocol.Name{converseDialect}, textDialects...)

// limitedRequest returns a non-streaming request with an output limit.
func limitedRequest(dialect protocol.Name) (path, body string) {
	if dialect == converseDialect {
		return "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"inferenceConfig":{"maxTokens":100}}`
	}
	return simpleRequest(dialect, false)
}

// requestsStream reports whether an upstream request asks for a stream.
func requestsStream(r upstreamtest.Request) bool {
	return strings.Contains(string(r.Body), `"stream":true`) || strings.Contains(r.Path, ":streamGenerateContent") || strings.HasSuffix(r.Path, "/converse-stream")
}

// TestAssembledKeepsMembers checks that a response that the gateway assembles for a client of the
// upstream's dialect has all members that a non-streaming response of the vendor has, with those
// that the gateway does not know. TestCollectedEqualsNonStreaming does so for Chat.
func TestAssembledKeepsMembers(t *testing.T) {
	for _, dialect := range fiveDialects {
		if dialect == chatDialect {
			continue
		}
		t.Run(string(dialect), func(t *testing.T) {
			c := sections(t, filepath.Join("testdata", "assembled", string(dialect)+".txtar"))
			g := newGateway(t, alwaysStream, speaking(dialect))
			g.up.Answer(upstreamtest.StreamRandom(c["stream.sse"], 3))
			if dialect == converseDialect {
				g.up.Answer(upstreamtest.Converse("", c["stream.sse"], 100))
			}
			path, body := limitedRequest(dialect)
			resp, got, err := g.post(t, path, body)
			if err != nil || resp.StatusCode != http.StatusOK || !requestsStream(g.up.Last(t)) {
				t.Fatalf("%v %s %s", err, resp.Status, got)
			}
			wantSame(t, got, c["body.json"])
			if dialect == protocol.OpenAIResponses && got != strings.TrimSpace(c["body.json"]) {
				t.Errorf("the upstream's own response is changed:\n%s", got)
			}
		})
	}
}
