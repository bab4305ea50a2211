package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const rerankPath = "/v1/rerank"

func reranking(form provider.Rerank) func(*gateway) {
	return func(g *gateway) { g.provider.Rerank = form }
}

func TestRerank(t *testing.T) {
	const ask = `{"model":"alias-chat","query":"q","documents":["a",{"text":"b"}],"top_n":2,"return_documents":true}`
	for name, c := range map[string]struct {
		form                                    provider.Rerank
		ask, path, sent, answer, want, fidelity string
	}{
		"cohere": {provider.RerankCohere, ask, "/v2/rerank", `{"model":"real-chat","query":"q","documents":["a","b"],"top_n":2}`,
			`{"id":"r-1","results":[{"index":0,"relevance_score":0.25},{"index":1,"relevance_score":0.5}],"meta":{"billed_units":{"search_units":1},"tokens":{"input_tokens":7}}}`,
			`{"id":"r-1","model":"real-chat","results":[{"index":1,"relevance_score":0.5,"document":{"text":"b"}},{"index":0,"relevance_score":0.25,"document":{"text":"a"}}],"usage":{"total_tokens":7},"meta":{"billed_units":{"search_units":1}}}`,
			"exact"},
		"jina": {provider.RerankJina, ask, rerankPath, `{"model":"real-chat","query":"q","documents":["a","b"],"top_n":2,"return_documents":false}`,
			`{"id":"r-2","model":"jina-m","results":[{"index":0,"relevance_score":0.5},{"index":1,"relevance_score":0.25}],"usage":{"total_tokens":7}}`,
			`{"id":"r-2","model":"jina-m","results":[{"index":0,"relevance_score":0.5,"document":{"text":"a"}},{"index":1,"relevance_score":0.25,"document":{"text":"b"}}],"usage":{"total_tokens":7},"meta":{}}`,
			"exact"},
		"losses": {provider.RerankCohere, `{"model":"real-chat","query":"q","documents":[{"t":"a"}],"rank_fields":["t"],"max_chunks_per_doc":3}`,
			"/v2/rerank", `{"model":"real-chat","query":"q","documents":["t: a"]}`,
			`{"id":"r-3","results":[{"index":0,"relevance_score":0.5}],"meta":{"tokens":{"input_tokens":7}}}`,
			`{"id":"r-3","model":"real-chat","results":[{"index":0,"relevance_score":0.5}],"usage":{"total_tokens":7},"meta":{}}`,
			`dropped;a=1;d=1;codes="rerank.max_chunks_per_doc rank_fields.joined"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, reranking(c.form))
			g.up.Answer(upstreamtest.JSON(200, c.answer))
			resp, body, _ := g.post(t, rerankPath, c.ask)
			if resp.StatusCode != http.StatusOK || body != c.want || resp.Header.Get("Isogloss-Fidelity") != c.fidelity {
				t.Errorf("%s %s\n got %s\nwant %s", resp.Status, resp.Header.Get("Isogloss-Fidelity"), body, c.want)
			}
			if sent := g.up.Last(t); sent.Path != c.path || string(sent.Body) != c.sent {
				t.Errorf("sent %s %s", sent.Path, sent.Body)
			}
			g.wantLine(t, `"input_tokens":7`)
			resp, body, _ = g.post(t, rerankPath, c.ask, exchange.ModeHeader, "strict")
			if (resp.StatusCode == http.StatusBadRequest) != (c.fidelity != "exact") {
				t.Errorf("strict: %s %s", resp.Status, body)
			}
		})
	}
}

// TestRerankHasAnID checks that the gateway generates an id if the upstream's response
// has none.
func TestRerankHasAnID(t *testing.T) {
	g := newGateway(t, reranking(provider.RerankJina))
	g.up.Answer(upstreamtest.JSON(200, `{"results":[]}`))
	resp, body, _ := g.post(t, rerankPath, `{"model":"real-chat","query":"q","documents":["a"]}`)
	if id := resp.Header.Get("X-Request-Id"); id == "" || !strings.HasPrefix(body, `{"id":"`+id+`","model":"real-chat",`) {
		t.Errorf("%s: %s", id, body)
	}
}

func TestRerankIsRefused(t *testing.T) {
	for _, c := range []struct{ ask, mode, says, fidelity string }{
		{`{"model":"real-chat","query":"q"}`, "", "documents", "exact"},
		{`{"model":"real-chat","query":"q","documents":["a"],"nvext":{}}`, "", "nvext", "exact"},
		{`{"model":"real-chat","query":"q","documents":["a"]}`, "lax", "strict, default or loose", "exact"},
		{`{"model":"real-chat","query":"q","documents":[{"image":"i"}]}`, "", "texts only", `refused;a=0;d=0;r=1;codes="rerank.image"`},
		{`{"model":"real-chat","query":"q","documents":[{"image":"i"}]}`, "loose", "texts only", `refused;a=0;d=0;r=1;codes="rerank.image"`},
	} {
		g := newGateway(t, reranking(provider.RerankCohere))
		resp, body, _ := g.post(t, rerankPath, c.ask, exchange.ModeHeader, c.mode)
		if f := readFault(t, chatDialect, body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(f.message, c.says) || len(g.up.Requests()) > 0 {
			t.Errorf("%s: %s %s", c.ask, resp.Status, body)
		}
		if got := resp.Header.Get("Isogloss-Fidelity"); got != c.fidelity {
			t.Errorf("%s: fidelity %s", c.ask, got)
		}
	}
}

func TestRerankErrors(t *testing.T) {
	for _, c := range []struct {
		status       int
		answer, says string
		want         int
	}{
		{422, `{"message":"top_n is too large"}`, "top_n is too large", 422},
		{429, `{"message":"slow down"}`, "slow down", 429},
		{401, `{"message":"invalid api token"}`, "the gateway's own credential", 502},
		{498, `{"message":"invalid token"}`, "the gateway's own credential", 502},
		{503, `{"message":"busy"}`, "busy", 503},
		{200, `{"message":"no results"}`, "does not hold a score", 502},
	} {
		for _, form := range []provider.Rerank{provider.RerankCohere, provider.RerankJina} {
			g := newGateway(t, reranking(form))
			g.up.Answer(upstreamtest.JSON(c.status, c.answer))
			resp, body, _ := g.post(t, rerankPath, `{"model":"real-chat","query":"q","documents":["a"]}`)
			if f := readFault(t, chatDialect, body); resp.StatusCode != c.want || !strings.Contains(f.message, c.says) {
				t.Errorf("%s, %d: %s %s", form, c.status, resp.Status, body)
			}
		}
	}
}

func TestRerankPassesUnchanged(t *testing.T) {
	const ask, answer = `{"model": "real-chat", "query": 1, "x": [ ]}`, `{"results": [ ]}`
	g := newGateway(t, reranking(provider.RerankSame))
	g.up.Answer(upstreamtest.JSON(200, answer))
	if _, body, _ := g.post(t, rerankPath, ask); body != answer || string(g.up.Last(t).Body) != ask || g.up.Last(t).Path != rerankPath {
		t.Errorf("%s %s %s", body, g.up.Last(t).Path, g.up.Last(t).Body)
	}
}
