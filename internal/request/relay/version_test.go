package relay

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// firstParty gives the upstream Anthropic's host name, which resolves to the test's
// socket.
func firstParty(t testing.TB, changes ...func(*gateway)) *gateway {
	t.Helper()
	g := newGateway(t, append([]func(*gateway){speaking(anthropicDialect), func(g *gateway) {
		g.provider.BaseURL = &url.URL{Scheme: "http", Host: "api.anthropic.com"}
	}}, changes...)...)
	tr := upstream.NewTransport(g.provider.Timeouts.Connect)
	tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, g.up.Addr)
	}
	g.relay.client.SetTransport(g.provider.Timeouts.Connect, tr)
	g.up.Answer(upstreamtest.JSON(200, messagesResponse))
	return g
}

func withThread(kind string) string {
	return strings.Replace(messagesRequest, `{"model"`, `{"thread":{"type":"`+kind+`"},"model"`, 1)
}

func TestVER01ThreadsAreRejected(t *testing.T) {
	for name, g := range map[string]*gateway{
		"another dialect":  newGateway(t, speaking(chatDialect)),
		"another server":   newGateway(t, speaking(anthropicDialect)),
		"two accounts":     firstParty(t),
		"a pinned version": newGateway(t, speaking(anthropicDialect), pinned(newVersion)),
	} {
		if name == "two accounts" {
			target := route.Target{Provider: g.provider, Model: "m", Timeouts: g.provider.Timeouts}
			s := *g.state
			s.Routes = route.New([]*route.Route{{Name: "m", Targets: []route.Target{target, target}}})
			g.relay.Use(&s)
		}
		for _, kind := range []string{"create", "continue"} { // VER-02
			for _, path := range []string{messagesPath, messagesPath + "?beta=true"} {
				resp, body, _ := g.post(t, path, withThread(kind), "Anthropic-Version", newVersion)
				f := readFault(t, anthropicDialect, body)
				if resp.StatusCode != http.StatusBadRequest || f.word != "invalid_request_error" || f.code != "thread_unsupported_request" {
					t.Errorf("%s, %s: %s %s", name, kind, resp.Status, body)
				}
			}
		}
		if n := len(g.up.Requests()); n > 0 {
			t.Errorf("%s: the upstream was called %d times", name, n)
		}
	}
}

func TestVER02ThreadsAreForwardedToTheirAccount(t *testing.T) {
	g := firstParty(t)
	for _, kind := range []string{"create", "continue"} {
		ask := withThread(kind)
		resp, body, _ := g.post(t, messagesPath, ask, "Anthropic-Version", newVersion)
		if resp.StatusCode != http.StatusOK || body != messagesResponse || string(g.up.Last(t).Body) != ask {
			t.Errorf("%s: %s %s", kind, resp.Status, body)
		}
	}
	gone := `{"type":"error","error":{"type":"not_found_error","message":"gone","details":{"error_code":"thread_not_found"}}}`
	g.up.Answer(upstreamtest.JSON(404, gone))
	if resp, body, _ := g.post(t, messagesPath, withThread("continue")); resp.StatusCode != http.StatusNotFound || body != gone {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// pinned sets the provider's api_version and further accepted versions.
func pinned(version string, accepted ...string) func(*gateway) {
	return func(g *gateway) { g.provider.APIVersion, g.provider.AcceptedVersions = version, accepted }
}

const warmRequest = `{"model":"m","max_tokens":9,"temperature":0.5,"messages":[{"role":"user","content":"Hi"}]}`

func TestVER04SamplingIsTheVendorsToRefuse(t *testing.T) {
	refusal := `{"type":"error","error":{"type":"invalid_request_error","message":"temperature: Extra inputs are not permitted"}}`
	for name, change := range map[string]func(*gateway){"default": pinned(""), "pinned": pinned(newVersion), "accepted": pinned(oldVersion, newVersion)} {
		g := newGateway(t, speaking(anthropicDialect), change)
		g.up.Answer(upstreamtest.JSON(400, refusal))
		resp, body, _ := g.post(t, messagesPath, warmRequest, "Anthropic-Version", newVersion)
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusBadRequest || body != refusal || string(sent.Body) != warmRequest || sent.Header.Get("Anthropic-Version") != newVersion {
			t.Errorf("%s: %s %s; sent %s", name, resp.Status, body, sent.Body)
		}
	}
}

func TestVER05SamplingOfANewClientOnAnotherDialect(t *testing.T) {
	g := newGateway(t, speaking(chatDialect))
	g.up.Answer(upstreamtest.JSON(200, chatResponse))
	resp, body, _ := g.post(t, messagesPath, warmRequest, "Anthropic-Version", newVersion)
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(g.up.Last(t).Body), `"temperature":0.5`) || !strings.Contains(resp.Header.Get("Isogloss-Fidelity"), "sampling.version") {
		t.Errorf("%s %s %v; sent %s", resp.Status, body, resp.Header, g.up.Last(t).Body)
	}
	before := len(g.up.Requests())
	resp, body, _ = g.post(t, messagesPath, warmRequest, "Anthropic-Version", newVersion, exchange.ModeHeader, "strict")
	if f := readFault(t, anthropicDialect, body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(f.message, "temperature") || len(g.up.Requests()) != before {
		t.Errorf("%s %s", resp.Status, body)
	}
	resp, _, _ = g.post(t, messagesPath, warmRequest, "Anthropic-Version", oldVersion, exchange.ModeHeader, "strict")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Isogloss-Fidelity") != "exact" {
		t.Errorf("the old version: %s %v", resp.Status, resp.Header)
	}
}

func TestVER06SamplingOfAnOldClientOnANewUpstream(t *testing.T) {
	for name, version := range map[string]string{"old": oldVersion, "none": ""} {
		g := newGateway(t, speaking(anthropicDialect), pinned(newVersion))
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		resp, body, _ := g.post(t, messagesPath, warmRequest, "Anthropic-Version", version, "Anthropic-Beta", "b-1")
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || strings.Contains(string(sent.Body), "temperature") || sent.Header.Get("Anthropic-Version") != newVersion {
			t.Errorf("%s: %s; sent %s %v", name, resp.Status, sent.Body, sent.Header)
		}
		if got := readWhole(t, anthropicDialect, body); got != readWhole(t, anthropicDialect, messagesResponse) {
			t.Errorf("%s: %s", name, body)
		}
		if f := resp.Header.Get("Isogloss-Fidelity"); !strings.HasPrefix(f, "dropped;") || sent.Header.Get("Anthropic-Beta") != "b-1" {
			t.Errorf("%s: %s, %v", name, f, sent.Header)
		}
	}
}

func TestVER07And08SamplingOfOtherClients(t *testing.T) {
	ask := `{"model":"m","max_completion_tokens":9,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}`
	for name, c := range map[string]struct {
		change  func(*gateway)
		version string
		kept    bool
	}{
		"no version":    {pinned(""), oldVersion, true},
		"both accepted": {pinned(newVersion, oldVersion), oldVersion, true},
		"only the new":  {pinned(newVersion), newVersion, false},
		"only the old":  {pinned(oldVersion), oldVersion, true},
	} {
		g := newGateway(t, speaking(anthropicDialect), c.change)
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		resp, _, _ := g.post(t, chatPath, ask)
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || sent.Header.Get("Anthropic-Version") != c.version || strings.Contains(string(sent.Body), `"temperature":0`) != c.kept {
			t.Errorf("%s: %s; sent %v %s", name, resp.Status, sent.Header, sent.Body)
		}
		if f := resp.Header.Get("Isogloss-Fidelity"); (f == "exact") != c.kept {
			t.Errorf("%s: %s", name, f)
		}
	}
}

func TestVER12BetaQueryAndHeader(t *testing.T) {
	for _, path := range []string{messagesPath, messagesPath + "?beta=true"} {
		g := newGateway(t, speaking(anthropicDialect))
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		resp, body, _ := g.post(t, path, messagesRequest, "Anthropic-Version", newVersion, "Anthropic-Beta", "one,two")
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || body != messagesResponse || sent.Path != messagesPath || sent.Header.Get("Anthropic-Beta") != "one,two" {
			t.Errorf("%s: %s; sent %s %v", path, resp.Status, sent.Path, sent.Header)
		}
		g = newGateway(t, speaking(chatDialect))
		g.up.Answer(upstreamtest.JSON(200, chatResponse))
		resp, _, _ = g.post(t, path, messagesRequest, "Anthropic-Version", newVersion, "Anthropic-Beta", "one,two")
		if h := g.up.Last(t).Header; h.Get("Anthropic-Beta")+h.Get("Anthropic-Version") != "" || !strings.Contains(resp.Header.Get("Isogloss-Fidelity"), "header.anthropic_beta") {
			t.Errorf("%s: another vendor was sent %v: %v", path, h, resp.Header)
		}
	}
}

func TestVER13And14ClientKeysStayHere(t *testing.T) {
	keys := func(g *gateway) {
		g.state.Keys = access.NewKeys([]access.Key{{Secret: "sk-client"}})
		g.up.Answer(upstreamtest.JSON(200, responses[g.provider.Protocol]))
	}
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"bearer":                {[]string{"Authorization", "Bearer sk-client"}, 200},
		"x-api-key":             {[]string{"X-Api-Key", "sk-client"}, 200},
		"x-goog-api-key":        {[]string{"X-Goog-Api-Key", "sk-client"}, 200},
		"both, the key is good": {[]string{"X-Api-Key", "sk-client", "Authorization", "Bearer sk-other"}, 200},
		"both, the key is bad":  {[]string{"X-Api-Key", "sk-other", "Authorization", "Bearer sk-client"}, 401},
		"none":                  {nil, 401},
	} {
		for _, upstream := range []protocol.Name{anthropicDialect, chatDialect, geminiDialect} {
			g := newGateway(t, speaking(upstream), keys)
			resp, body, _ := g.post(t, messagesPath, messagesRequest, append(c.headers, "Anthropic-Version", newVersion)...)
			if resp.StatusCode != c.status {
				t.Errorf("%s on %s: %s %s", name, upstream, resp.Status, body)
			}
			if c.status == 401 {
				if f := readFault(t, anthropicDialect, body); f.word != "authentication_error" {
					t.Errorf("%s: %s", name, body)
				}
				continue
			}
			wantUpstreamRequest(t, g, upstream, false)
			if sent := fmt.Sprint(g.up.Last(t)); strings.Contains(sent, "sk-client") || strings.Contains(sent, "sk-other") {
				t.Errorf("%s on %s: a client's key was sent on: %s", name, upstream, sent)
			}
		}
	}
}

func TestVER19And22GeminiVersions(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(*gateway)
		asked, model string
		sent         string
	}{
		"as asked, v1":      {pinned(""), "v1", "m", "/v1/models/m:generateContent"},
		"as asked, v1beta":  {pinned(""), "v1beta", "m", "/v1beta/models/m:generateContent"},
		"as asked, v1alpha": {pinned(""), "v1alpha", "m", "/v1alpha/models/m:generateContent"},
		"pinned":            {pinned("v1"), "v1beta", "m", "/v1/models/m:generateContent"},
		"accepted":          {pinned("v1", "v1beta"), "v1beta", "m", "/v1beta/models/m:generateContent"},
		"not accepted":      {pinned("v1", "v1beta"), "v1alpha", "m", "/v1/models/m:generateContent"},
		"only accepted":     {pinned("", "v1beta"), "v1", "m", "/v1beta/models/m:generateContent"},
		"an alias":          {pinned(""), "v1", "gemini-flash-latest", "/v1beta/models/gemini-flash-latest:generateContent"},
		"an alias, pinned":  {pinned("v1"), "v1", "gemini-flash-latest", "/v1/models/gemini-flash-latest:generateContent"},
	} {
		g := newGateway(t, speaking(geminiDialect), c.change, func(g *gateway) { g.extra = []string{"m", "gemini-flash-latest"} })
		g.up.Answer(upstreamtest.JSON(200, geminiResponse))
		resp, body, _ := g.post(t, "/"+c.asked+"/models/"+c.model+":generateContent", geminiRequest)
		if sent := g.up.Last(t); resp.StatusCode != http.StatusOK || body != geminiResponse || sent.Path != c.sent || string(sent.Body) != geminiRequest {
			t.Errorf("%s: %s; sent %s %s", name, resp.Status, sent.Path, sent.Body)
		}
	}
	var bodies []string // equal for every version
	for _, version := range []string{"v1", "v1beta", "v1alpha"} {
		g := newGateway(t, speaking(chatDialect))
		g.up.Answer(upstreamtest.JSON(200, chatResponse))
		// VER-21
		_, _, _ = g.post(t, "/"+version+"/models/m:generateContent", `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"thinkingConfig":{"include_thoughts":true}}}`)
		bodies = append(bodies, string(g.up.Last(t).Body))
	}
	if bodies[0] != bodies[1] || bodies[0] != bodies[2] || !strings.Contains(bodies[0], "Hi") {
		t.Errorf("%q", bodies)
	}
}

func TestVER24DetailsOfErrorsAreForwarded(t *testing.T) {
	details := `{"type":"error","error":{"type":"invalid_request_error","message":"no","details":{"error_code":"thread_unsupported_request","unsupported":["hipaa"]}},"request_id":"r"}`
	c := sharedCase(t, "text")
	for _, version := range []string{oldVersion, newVersion} {
		g := newGateway(t, speaking(anthropicDialect))
		g.up.Answer(upstreamtest.JSON(400, details))
		if resp, body, _ := g.post(t, messagesPath, messagesRequest, "Anthropic-Version", version); resp.StatusCode != http.StatusBadRequest || body != details {
			t.Errorf("%s %s", resp.Status, body)
		}
		event := "event: error\ndata: " + details + "\n\n"
		g.up.Answer(upstreamtest.Stream(beginning(c, anthropicDialect) + event))
		path, ask := simpleRequest(anthropicDialect, true)
		if _, body, _ := g.post(t, path, ask, "Anthropic-Version", version); !strings.HasSuffix(body, event) {
			t.Errorf("%s", body)
		}
	}
}

func TestVER28UnknownVersions(t *testing.T) {
	const future = "2027-01-01"
	ask := strings.Replace(messagesRequest, `{"model"`, `{"invention":1,"model"`, 1)
	for name, c := range map[string]struct {
		change func(*gateway)
		taken  bool
	}{
		"unlisted":          {speaking(anthropicDialect), false},
		"pinned":            {func(g *gateway) { speaking(anthropicDialect)(g); pinned(newVersion)(g) }, false},
		"listed":            {func(g *gateway) { speaking(anthropicDialect)(g); pinned("", future)(g) }, true},
		"forwarded":         {func(g *gateway) { speaking(anthropicDialect)(g); g.provider.ForwardUnknownVersion = true }, true},
		"translated":        {speaking(chatDialect), false},
		"translated anyway": {func(g *gateway) { speaking(chatDialect)(g); g.provider.ForwardUnknownVersion = true }, false},
	} {
		g := newGateway(t, c.change)
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		resp, body, _ := g.post(t, messagesPath, ask, "Anthropic-Version", future)
		if !c.taken {
			f := readFault(t, anthropicDialect, body)
			if resp.StatusCode != http.StatusBadRequest || f.word != "invalid_request_error" || !strings.Contains(f.message, oldVersion+", "+newVersion) || len(g.up.Requests()) > 0 {
				t.Errorf("%s: %s %s", name, resp.Status, body)
			}
			continue
		}
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || body != messagesResponse || string(sent.Body) != ask || sent.Header.Get("Anthropic-Version") != future {
			t.Errorf("%s: %s %s; sent %v %s", name, resp.Status, body, sent.Header, sent.Body)
		}
	}
	g := newGateway(t, speaking(anthropicDialect))
	resp, body := g.request(t, http.MethodPost, messagesPath, ask, http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {oldVersion, newVersion}})
	if readFault(t, anthropicDialect, body); resp.StatusCode != http.StatusBadRequest || len(g.up.Requests()) > 0 {
		t.Errorf("two versions: %s %s", resp.Status, body)
	}
}

// TestPinnedVersionUpstream checks that translated requests use a pinned version, too.
func TestPinnedVersionUpstream(t *testing.T) {
	for version, want := range map[string]string{"": oldVersion, oldVersion: oldVersion, newVersion: newVersion} {
		g := newGateway(t, speaking(anthropicDialect), pinned(version))
		g.up.Answer(upstreamtest.JSON(200, messagesResponse))
		path, ask := simpleRequest(chatDialect, false)
		if resp, body, _ := g.post(t, path, ask); resp.StatusCode != http.StatusOK || g.up.Last(t).Header.Get("Anthropic-Version") != want {
			t.Errorf("%q: %s %s %v", version, resp.Status, body, g.up.Last(t).Header)
		}
	}
	for version, want := range map[string]string{"": "v1beta", "v1": "v1"} {
		g := newGateway(t, speaking(geminiDialect), pinned(version))
		g.up.Answer(upstreamtest.JSON(200, geminiResponse))
		path, ask := simpleRequest(chatDialect, false)
		if resp, body, _ := g.post(t, path, ask); resp.StatusCode != http.StatusOK || g.up.Last(t).Path != "/"+want+"/models/m:generateContent" {
			t.Errorf("%q: %s %s %s", version, resp.Status, body, g.up.Last(t).Path)
		}
	}
}

// TestVER30HistoryPassesUnchanged checks that a history written by an old or a new SDK is
// forwarded unchanged (VER-30).
func TestVER30HistoryPassesUnchanged(t *testing.T) {
	const answer = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[],"usage":null}`
	for _, fault := range []string{`"it broke"`, `{"type":"http_error","code":500,"message":"it broke"}`} {
		ask := `{"model":"m","input":[{"type":"mcp_call","id":"mcp_1","name":"f","server_label":"s","arguments":"{}","error":` + fault + `},{"role":"user","content":"go on"}]}`
		g := newGateway(t, speaking(responsesDialect))
		g.up.Answer(upstreamtest.JSON(200, answer))
		if resp, body, _ := g.post(t, "/v1/responses", ask); resp.StatusCode != http.StatusOK || body != answer || string(g.up.Last(t).Body) != ask {
			t.Errorf("%s %s; sent %s", resp.Status, body, g.up.Last(t).Body)
		}
	}
}
