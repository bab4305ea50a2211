package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

const (
	oldVersion, newVersion = "2023-06-01", "2026-10-21"

	messagesPath     = "/v1/messages"
	messagesRequest  = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`
	messagesResponse = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`
	geminiResponse   = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},"modelVersion":"m","responseId":"g"}`
	chatResponse     = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	geminiRequest    = `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`
)

// responses maps each dialect to a successful response.
var responses = map[protocol.Name]string{chatDialect: chatResponse, anthropicDialect: messagesResponse, geminiDialect: geminiResponse}

func TestVER15ModelsInThreeDialects(t *testing.T) {
	g := newGateway(t, func(g *gateway) { g.extra = []string{"ft:a:b::c"} })
	const (
		openAI    = `{"object":"list","data":[{"id":"real-chat","object":"model","created":1770000000,"owned_by":"up"},`
		anthropic = `{"data":[{"type":"model","id":"real-chat","display_name":"real-chat","created_at":"2026-02-02T02:40:00Z"},`
		google    = `{"models":[{"name":"models/real-chat","displayName":"real-chat",`
	)
	for _, c := range []struct {
		path   string
		header http.Header
		begin  string
		end    string
	}{
		{"/v1/models", http.Header{"Authorization": {"Bearer k"}}, openAI, "}]}"},
		{"/v1/models", http.Header{"Authorization": {"Bearer k"}, "Anthropic-Version": {newVersion}}, anthropic, `],"has_more":false,"first_id":"real-chat","last_id":"ft:a:b::c"}`},
		{"/v1/models?limit=1000", http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {oldVersion}}, anthropic, "}"},
		{"/v1/models?beta=true", http.Header{"Anthropic-Beta": {"x"}}, anthropic, "}"},
		{"/v1/models", http.Header{"X-Goog-Api-Key": {"k"}}, google, "}]}"},
		{"/v1/models", http.Header{"X-Goog-Api-Client": {"x"}}, google, "}]}"},
		{"/v1/models?key=k", nil, google, "}]}"},
		{"/v1beta/models", nil, google, "}]}"},
		{"/v1alpha/models?pageSize=5", nil, google, "}]}"},
		{"/v1/v1beta/models", nil, google, "}]}"}, // VER-20
		{"/v1/v1/models", http.Header{"X-Goog-Api-Key": {"k"}}, google, "}]}"},
		{"/v1beta/models/real-chat", nil, `{"name":"models/real-chat",`, "}"},
		{"/v1/models/real-chat", http.Header{"Anthropic-Version": {newVersion}}, `{"type":"model","id":"real-chat",`, "}"},
		{"/v1/models/real-chat", nil, `{"id":"real-chat","object":"model"`, "}"},
		{"/v1/models/vendor%2Fslashed", nil, `{"id":"vendor/slashed",`, "}"}, // VER-17
		{"/v1/models/any%2Fm:free", nil, `{"id":"any/m:free",`, "}"},
		{"/v1/models/ft:a:b::c", nil, `{"id":"ft:a:b::c",`, "}"},
	} {
		resp, body := g.request(t, http.MethodGet, c.path, "", c.header)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, c.begin) || !strings.HasSuffix(body, c.end) {
			t.Errorf("%s %v: %s\n%s\nwant %s…%s", c.path, c.header, resp.Status, body, c.begin, c.end)
		}
	}
}

func TestVER16And20GeminiPaths(t *testing.T) {
	models := func(g *gateway) { g.extra = []string{"m", "vendor/m", "m:x", "tunedModels/t", "per%cent"} }
	for _, c := range []struct{ path, model string }{
		{"/v1/models/m:generateContent", "m"},
		{"/v1/models/vendor/m:generateContent", "vendor/m"},
		{"/v1/models/vendor%2Fm:generateContent", "vendor/m"},
		{"/v1/models/m:x:generateContent", "m:x"},
		{"/v1/models/m%3Ax:generateContent", "m:x"},
		{"/v1beta/models/m%3AgenerateContent", "m"},
		{"/v1beta/tunedModels/t:generateContent", "tunedModels/t"},
		{"/v1beta/models/per%25cent:generateContent", "per%cent"},
		{"/v1/v1beta/models/m:generateContent", "m"},
		{"/v1/v1/models/vendor/m:generateContent?key=client-key", "vendor/m"},
		{"/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent", "m"},
	} {
		for _, upstream := range []protocol.Name{chatDialect, anthropicDialect, geminiDialect} {
			g := newGateway(t, speaking(upstream), models)
			g.up.Answer(upstreamtest.JSON(200, responses[upstream]))
			resp, body, _ := g.post(t, c.path, geminiRequest)
			if resp.StatusCode != http.StatusOK || readWhole(t, geminiDialect, body) != readWhole(t, geminiDialect, geminiResponse) {
				t.Errorf("%s on %s: %s %s", c.path, upstream, resp.Status, body)
				continue
			}
			sent := g.up.Last(t)
			if target := resp.Header.Get("Isogloss-Target"); target != "up/"+c.model {
				t.Errorf("%s: sent to %s", c.path, target)
			}
			if upstream != geminiDialect && !strings.Contains(string(sent.Body), `"model":"`+c.model+`"`) {
				t.Errorf("%s on %s: sent %s", c.path, upstream, sent.Body)
			}
			if strings.Contains(fmt.Sprint(sent), "client-key") {
				t.Errorf("%s: the key was sent on: %s", c.path, sent.Path)
			}
		}
	}
}

func TestVER18UnknownVerbs(t *testing.T) {
	g := newGateway(t, speaking(geminiDialect))
	for _, path := range []string{"/v1/models/m:frobnicate", "/v1beta/models/m:frobnicate", "/v1/models/:generateContent", "/v2/models/m:generateContent"} {
		resp, body, _ := g.post(t, path, geminiRequest)
		if f := readFault(t, geminiDialect, body); resp.StatusCode != http.StatusNotFound || f.word != "NOT_FOUND" {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	for path, dialect := range map[string]protocol.Name{"/v1/models/m:generateContent": chatDialect, "/v1beta/models/m:generateContent": geminiDialect} {
		resp, body := g.request(t, http.MethodGet, path, "", http.Header{})
		if readFault(t, dialect, body); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s %s", path, resp.Status, body)
		}
	}
	resp, body := g.request(t, http.MethodGet, "/v1/models/m:generateContent", "", http.Header{"Anthropic-Version": {newVersion}})
	if f := readFault(t, anthropicDialect, body); resp.StatusCode != http.StatusNotFound || f.word != "not_found_error" {
		t.Errorf("%s %s", resp.Status, body)
	}
	if len(g.up.Requests()) > 0 {
		t.Error("the upstream was called")
	}
}

// TestRequestIDHeaders checks that the request id is sent in the header that each
// dialect's clients read.
func TestRequestIDHeaders(t *testing.T) {
	for _, client := range textDialects {
		g := newGateway(t, speaking(chatDialect))
		g.up.Answer(upstreamtest.JSON(200, chatResponse))
		path, ask := simpleRequest(client, false)
		for _, body := range []string{ask, `{"model":"nobody"}`} {
			resp, _, _ := g.post(t, path, body)
			own, other := "X-Request-Id", "Request-Id"
			if client == anthropicDialect {
				own, other = other, own
			}
			if resp.Header.Get(own) == "" || resp.Header.Get(other) != "" {
				t.Errorf("%s: %v", client, resp.Header)
			}
		}
	}
	g := newGateway(t)
	for _, path := range []string{"/health", "/v1/models"} {
		if resp, _ := g.request(t, http.MethodGet, path, "", nil); resp.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}
