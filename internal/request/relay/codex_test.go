package relay

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

const (
	compactPath     = "/v1/responses/compact"
	compactRequest  = `{"model":"m","instructions":"x", "input":[{"type":"message","role":"user","content":"Hi"}]}`
	compactResponse = `{"id":"resp_1", "object":"response.compaction","output":[{"type":"compaction","encrypted_content":"e"}],"usage":{"input_tokens":100,"output_tokens":20,"total_tokens":120}}`
)

// TestCompact checks that Codex's request to shorten a conversation is relayed unchanged to a
// Responses upstream, is charged, and is refused by name on others.
func TestCompact(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar})
	g := newGateway(t, books.use, speaking(responsesDialect))
	g.up.Answer(upstreamtest.JSON(http.StatusOK, compactResponse))
	resp, body, _ := g.post(t, compactPath, compactRequest)
	sent := g.up.Last(t)
	if resp.StatusCode != http.StatusOK || body != compactResponse || sent.Path != compactPath || string(sent.Body) != compactRequest {
		t.Errorf("%s %s; sent %s %s", resp.Status, body, sent.Path, sent.Body)
	}
	if row := books.one(t, g); row.Usage.Input != 100 || row.Usage.Output != 20 || row.Endpoint != "responses_compact" || row.Estimated {
		t.Errorf("%+v", row)
	}
	for _, upstream := range []protocol.Name{chatDialect, anthropicDialect, geminiDialect} {
		g := newGateway(t, speaking(upstream))
		resp, body, _ := g.post(t, compactPath, compactRequest)
		f := readFault(t, responsesDialect, body)
		if resp.StatusCode != http.StatusNotFound || f.code != "not_supported" || !strings.Contains(f.message, compactPath) || len(g.up.Requests()) > 0 {
			t.Errorf("on %s: %s %s", upstream, resp.Status, body)
		}
	}
}

// TestCountTokensOfResponses checks that OpenAI's token count is relayed to a Responses upstream
// and refused on Chat, which has none, without an estimate.
func TestCountTokensOfResponses(t *testing.T) {
	const path, ask, count = "/v1/responses/input_tokens", `{"model":"m","input":"Hi"}`, `{"object":"response.input_tokens","input_tokens":11}`
	g := newGateway(t, speaking(responsesDialect))
	g.up.Answer(upstreamtest.JSON(http.StatusOK, count))
	if resp, body, _ := g.post(t, path, ask); resp.StatusCode != http.StatusOK || body != count || g.up.Last(t).Path != path {
		t.Errorf("%s %s", resp.Status, body)
	}
	for _, upstream := range []protocol.Name{chatDialect} {
		g := newGateway(t, speaking(upstream))
		resp, body, _ := g.post(t, path, ask)
		if f := readFault(t, responsesDialect, body); resp.StatusCode != http.StatusNotImplemented || f.code != "not_supported" || !strings.Contains(f.message, path) || resp.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("on %s: %s %s", upstream, resp.Status, body)
		}
	}
}

// TestModelsForCodex checks the list of models that Codex reads: models holds nothing that would
// replace its own settings, and data is OpenAI's list.
func TestModelsForCodex(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect))
	for path, codex := range map[string]bool{"/v1/models?client_version=0.166.0": true, "/v1/models": false, "/v1/models/m?client_version=0.166.0": false} {
		resp, body := g.request(t, http.MethodGet, path, "", http.Header{})
		var list struct {
			ID     string
			Data   []struct{ ID string }
			Models *[]any
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil || resp.StatusCode != http.StatusOK || len(list.Data) == 0 && list.ID != "m" || (list.Models != nil) != codex || codex && len(*list.Models) > 0 {
			t.Errorf("%s: %v %s %s", path, err, resp.Status, body)
		}
	}
}

// TestPathsOfCodex checks that the other paths that Codex uses are refused by name.
func TestPathsOfCodex(t *testing.T) {
	g := newGateway(t)
	for _, path := range []string{"/v1/images/generations", "/v1/images/edits", "/v1/memories/trace_summarize", "/v1/realtime/calls"} {
		resp, body, _ := g.post(t, path, `{"model":"real-chat"}`)
		if f := readFault(t, chatDialect, body); resp.StatusCode != http.StatusNotFound || f.code != "unknown_url" || !strings.Contains(f.message, "POST "+path) || strings.Contains(f.message, "did you mean") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}
