package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

func model(id, owner string) string {
	return fmt.Sprintf(`{"id":%q,"object":"model","created":1770000000,"owned_by":%q}`, id, owner)
}

func TestSurface(t *testing.T) {
	g := newGateway(t)
	g.serve("b:7b", "a model/é")
	list := `{"object":"list","data":[` + strings.Join([]string{
		model("real-chat", "up"), model("alias-chat", "up"), model("vendor/slashed", "vendor"), model("b:7b", "up"), model("a model/é", "up"),
	}, ",") + `]}`
	names := `["real-chat","alias-chat","vendor/slashed","b:7b","a model/é"]`
	for _, c := range []struct{ path, want string }{
		{"/v1/models", list},
		{"/v1/models?limit=1", list},
		{"/v1/models/real-chat", model("real-chat", "up")},
		{"/v1/models/vendor/slashed", model("vendor/slashed", "vendor")},
		{"/v1/models/vendor%2Fslashed", model("vendor/slashed", "vendor")},
		{"/v1/models/vendor%2fslashed", model("vendor/slashed", "vendor")},
		{"/v1/models/b:7b", model("b:7b", "up")},
		{"/v1/models/b%3A7b", model("b:7b", "up")},
		{"/v1/models/a%20model/%C3%A9", model("a model/é", "up")},
		{"/v1/models/any/meta/llama:70b", model("any/meta/llama:70b", "up")},
		{"/v1/models/any%2Fmeta%2Fllama", model("any/meta/llama", "up")},
		{"/dynamo/alpha/list-models", `{"chat_completion_models":` + names + `,"completion_models":` + names + `}`},
		{"/health", `{"status":"ready"}`},
		{"/live", `{"status":"live"}`},
	} {
		resp, got := g.request(t, http.MethodGet, c.path, "", http.Header{})
		if resp.StatusCode != http.StatusOK || got != c.want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("GET %s: %s\n%s\nwant\n%s", c.path, resp.Status, got, c.want)
		}
		resp, got = g.request(t, http.MethodHead, c.path, "", http.Header{})
		if resp.StatusCode != http.StatusOK || got != "" || resp.ContentLength != int64(len(c.want)) {
			t.Errorf("HEAD %s: %s %d %q", c.path, resp.Status, resp.ContentLength, got)
		}
	}
	if len(g.up.Requests()) > 0 {
		t.Error("the upstream was called")
	}
}

func TestSurfaceRefuses(t *testing.T) {
	g := newGateway(t)
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{http.MethodGet, "/v1/models/nobody", 404, "model_not_found"},
		{http.MethodGet, "/v1/models/vendor", 404, "model_not_found"},
		{http.MethodGet, "/v1/models/any/", 404, "model_not_found"},
		{http.MethodGet, "/v1/models/REAL-CHAT", 404, "model_not_found"},
		{http.MethodGet, "/v1/models/", 404, "unknown_url"},
		{http.MethodGet, "/v1/models/%0d%0aX-Evil:1", 404, "model_not_found"},
		{http.MethodPost, "/", 404, "unknown_url"},
		{http.MethodGet, "/v1", 404, "unknown_url"},
		{http.MethodGet, "//v1/models", 404, "unknown_url"},
		{http.MethodGet, "/v1/../metrics", 404, "unknown_url"},
		{http.MethodGet, "/metrics", 404, "unknown_url"},
		{http.MethodDelete, "/v1/models/real-chat", 405, "method_not_allowed"},
		{http.MethodPut, "/dynamo/alpha/list-models", 405, "method_not_allowed"},
	} {
		resp, got := g.request(t, c.method, c.path, "", http.Header{})
		wantError(t, resp, got, c.status, c.code)
		if allow := resp.Header.Get("Allow"); c.status == 405 && allow != "GET, HEAD" || c.status != 405 && allow != "" {
			t.Errorf("%s %s: Allow %q", c.method, c.path, allow)
		}
	}
}

func TestSurfaceRequiresAKey(t *testing.T) {
	g := newGateway(t, withKeys)
	for path, status := range map[string]int{"/v1/models": 401, "/v1/models/real-chat": 401, "/dynamo/alpha/list-models": 401, "/nothing": 401, "/health": 200, "/live": 200} {
		if resp, got := g.request(t, http.MethodGet, path, "", http.Header{}); resp.StatusCode != status {
			t.Errorf("%s without a key: %s %s", path, resp.Status, got)
		}
		want := map[string]int{"/nothing": 404}[path]
		resp, got := g.request(t, http.MethodGet, path, "", http.Header{"X-Api-Key": {"sk-client"}})
		if resp.StatusCode != max(want, 200) {
			t.Errorf("%s with a key: %s %s", path, resp.Status, got)
		}
	}
}

func TestDrainingIsNotHealthyButLive(t *testing.T) {
	g := newGateway(t)
	g.relay.Drain()
	if resp, got := g.request(t, http.MethodGet, "/health", "", http.Header{}); resp.StatusCode != http.StatusServiceUnavailable || got != `{"status":"draining"}` {
		t.Errorf("health: %s %s", resp.Status, got)
	}
	if resp, got := g.request(t, http.MethodGet, "/live", "", http.Header{}); resp.StatusCode != http.StatusOK || got != `{"status":"live"}` {
		t.Errorf("live: %s %s", resp.Status, got)
	}
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	if _, got, _ := g.post(t, chatPath, plainRequest); got != plainResponse {
		t.Errorf("a request while draining: %s", got)
	}
}

func TestOtherEndpointsPassUnchanged(t *testing.T) {
	g := newGateway(t)
	text := "data: {\"id\":\"t1\",\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"Hel\",\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"t1\",\"choices\":[{\"index\":0,\"text\":\"lo\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"
	for _, c := range []struct{ endpoint, path, body, answer, media, line string }{
		{"completions", "/v1/completions", `{"model":"real-chat", "prompt":["a",[1,2]] ,"suffix":null}`,
			`{"id":"t1", "object":"text_completion","choices":[{"index":0,"text":"\u00e9","finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n", "application/json", `"finish":"length","input_tokens":3`},
		{"completions", "/v1/completions", `{"model":"real-chat","prompt":"a","stream" : true}`, text, "text/event-stream", `"finish":"length","input_tokens":3`},
		{"embeddings", "/v1/embeddings", `{"input":["北京",""],"model":"real-chat","dimensions":1e2,"encoding_format":"float"}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[-0.0070012,1.10,1E-7]}],"model":"real-chat","usage":{"prompt_tokens":8,"total_tokens":8}}`, "application/json", `"input_tokens":8`},
		{"rerank", "/v1/rerank", `{"model":"real-chat","query":"q","documents":[{"text":"a"},"b"],"top_n":1}`,
			`{"id":"r1","results":[{"index":1,"relevance_score":0.980}],"meta":{"billed_units":{"search_units":1}},"usage":{"total_tokens":5}}`, "application/json", `"outcome":"ok"`},
	} {
		t.Run(c.endpoint+" as "+c.media, func(t *testing.T) {
			g := newGateway(t)
			for cut, script := range cuts(c.media, c.answer) {
				g.up.Answer(script)
				resp, got, err := g.post(t, c.path, c.body)
				if err != nil || got != c.answer || resp.Header.Get("Content-Type") != c.media {
					t.Fatalf("%s: %v %v, the client got\n%s", cut, err, resp.Header, got)
				}
				if sent := g.up.Last(t); string(sent.Body) != c.body || sent.Path != c.path {
					t.Fatalf("%s: the upstream got %s at %s", cut, sent.Body, sent.Path)
				}
			}
			g.wantLine(t, `"endpoint":"`+c.endpoint+`"`, c.line)
		})
	}
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	_, answer, err := g.post(t, "/v1/embeddings", `{"input":"a","model":"any/bge-m3"}`)
	if err != nil || answer != plainResponse {
		t.Fatal(err, answer)
	}
	if got := string(g.up.Last(t).Body); got != `{"input":"a","model":"bge-m3"}` {
		t.Errorf("the upstream got %s", got)
	}
}

// TestSimilarModels checks that an unknown model is answered with similar names, in the
// client's dialect, and only with those that the key may use.
func TestSimilarModels(t *testing.T) {
	g := newGateway(t)
	for model, want := range map[string]string{
		"rael-chat": "did you mean 'real-chat'", "slashed": "did you mean 'vendor/slashed'?", "nothing like it": "GET /v1/models lists",
	} {
		resp, body := g.request(t, http.MethodPost, chatPath, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, http.Header{"Content-Type": {"application/json"}})
		wantError(t, resp, body, 404, "model_not_found")
		if !strings.Contains(body, want) {
			t.Errorf("%s: %s", model, body)
		}
	}
	resp, body := g.request(t, http.MethodPost, "/v1/messages", `{"model":"rael-chat","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}})
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, `"type":"not_found_error"`) || !strings.Contains(body, "'real-chat'") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if near := g.relay.Models().Similar("rael-chat", func(string) bool { return false }); near != nil {
		t.Errorf("a key that may use nothing learns of %q", near)
	}
}

// TestFirstPage checks the page at / for browsers and for other clients.
func TestFirstPage(t *testing.T) {
	g := newGateway(t)
	for accept, media := range map[string]string{"text/html,application/xhtml+xml,*/*;q=0.8": "text/html; charset=utf-8", "*/*": "application/json"} {
		resp, body := g.request(t, http.MethodGet, "/", "", http.Header{"Accept": {accept}})
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != media || !strings.Contains(body, "real-chat") || !strings.Contains(body, "OPENAI_BASE_URL") || strings.Contains(body, "any/*") || strings.Contains(body, "<script") {
			t.Errorf("%s: %s %s", accept, resp.Status, body)
		}
		if policy := resp.Header.Get("Content-Security-Policy"); strings.HasPrefix(media, "text/html") && !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
			t.Errorf("policy %q", policy)
		}
	}
}
