package relay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// wantError checks the status, the code and all four members of an error in OpenAI's
// format.
func wantError(t testing.TB, resp *http.Response, body string, status int, code string) {
	t.Helper()
	var got struct {
		Error map[string]*string `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Errorf("%s: %v: %s", resp.Status, err, body)
		return
	}
	names := []string{}
	for n := range got.Error {
		names = append(names, n)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"code", "message", "param", "type"}) || got.Error["message"] == nil || *got.Error["message"] == "" || got.Error["type"] == nil || *got.Error["type"] == "" {
		t.Errorf("the envelope lacks a member: %s", body)
		return
	}
	have := ""
	if c := got.Error["code"]; c != nil {
		have = *c
	}
	if resp.StatusCode != status || have != code || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %q as %s, want %d %q: %s", resp.StatusCode, have, resp.Header.Get("Content-Type"), status, code, body)
	}
}

// request sends a request with the given method and headers, and reads the response.
func (g *gateway) request(t testing.TB, method, path, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func withKeys(g *gateway) { g.state.Keys = access.NewKeys([]access.Key{{Secret: "sk-client"}}) }

func TestOwnErrors(t *testing.T) {
	asJSON := http.Header{"Content-Type": {"application/json"}}
	for name, c := range map[string]struct {
		method, path, body string
		header             http.Header
		change             func(*gateway)
		status             int
		code, param, says  string
	}{
		"not JSON":         {body: `{"model":`, status: 400, code: "invalid_json", says: "not valid JSON at byte 9"},
		"no model":         {body: `{}`, status: 400, code: "missing_required_parameter", param: "model", says: "GET /v1/models"},
		"model no string":  {body: `{"model":7}`, status: 400, code: "missing_required_parameter", param: "model", says: "model"},
		"odd stream":       {body: `{"model":"real-chat","stream":"yes"}`, status: 400, code: "invalid_type", param: "stream", says: "true or false"},
		"odd options":      {body: `{"model":"real-chat","stream_options":[]}`, status: 400, code: "invalid_type", param: "stream_options", says: "an object"},
		"no key":           {body: plainRequest, change: withKeys, status: 401, code: "invalid_api_key", says: "Authorization: Bearer KEY"},
		"wrong key":        {body: plainRequest, change: withKeys, header: http.Header{"Content-Type": asJSON["Content-Type"], "Authorization": {"Bearer sk-wrong"}}, status: 401, code: "invalid_api_key", says: "not known"},
		"unknown model":    {body: `{"model":"no\u0007pe"}`, status: 404, code: "model_not_found", param: "model", says: "'no\ufffdpe'"},
		"unknown path":     {path: "/v1/audio/speech", body: plainRequest, status: 404, code: "unknown_url", says: "POST /v1/audio/speech"},
		"path below":       {path: chatPath + "/x", body: plainRequest, status: 404, code: "unknown_url", says: "did you mean"},
		"path with slash":  {path: chatPath + "/", body: plainRequest, status: 404, code: "unknown_url", says: "did you mean"},
		"GET":              {method: http.MethodGet, status: 405, code: "method_not_allowed", says: "takes POST, not GET"},
		"WebSocket":        {method: http.MethodGet, path: "/v1/responses", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}, status: 426, code: "websocket_unsupported", says: "by POST"},
		"OPTIONS":          {method: http.MethodOptions, status: 405, code: "method_not_allowed", says: "takes POST"},
		"POST to models":   {path: "/v1/models", body: plainRequest, status: 405, code: "method_not_allowed", says: "takes GET"},
		"too large":        {body: plainRequest, change: func(g *gateway) { g.state.Limits.Body = 20 }, status: 413, code: "request_too_large", says: "20 bytes"},
		"no content type":  {body: plainRequest, header: http.Header{}, status: 415, code: "unsupported_media_type", says: "application/json"},
		"form":             {body: plainRequest, header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, status: 415, code: "unsupported_media_type", says: "application/json"},
		"plain text":       {body: plainRequest, header: http.Header{"Content-Type": {"text/plain; application/json"}}, status: 415, code: "unsupported_media_type", says: "application/json"},
		"gzip":             {body: plainRequest, header: http.Header{"Content-Type": asJSON["Content-Type"], "Content-Encoding": {"gzip"}}, status: 415, code: "request_body_encoding_unsupported", says: "Content-Encoding"},
		"foreign protocol": {path: "/v1/embeddings", body: plainRequest, change: func(g *gateway) { g.provider.Protocol = protocol.Anthropic }, status: 400, code: "unsupported_protocol", param: "model", says: "anthropic"},
		"nothing listens": {body: plainRequest, change: func(g *gateway) { g.provider.BaseURL, _ = url.Parse("http://127.0.0.1:1/v1") },
			status: 502, code: "upstream_unreachable", says: "could not be reached"},
		"no first byte": {body: plainRequest, change: func(g *gateway) {
			g.provider.Timeouts.FirstByte = 20 * time.Millisecond
			g.up.Answer(func(c *upstreamtest.Conn) { c.Gone(10 * time.Second) })
		}, status: 504, code: "timeout_first_byte", says: "20ms"},
		"no answer": {body: plainRequest, change: func(g *gateway) { g.up.Answer(func(*upstreamtest.Conn) {}) }, status: 502, code: "upstream_no_answer", says: "without a response"},
		"not an answer": {body: plainRequest, change: func(g *gateway) { g.up.Answer(upstreamtest.JSON(http.StatusOK, "<html>")) },
			status: 502, code: "upstream_invalid_response", says: "not a complete JSON object"},
		"answer too large": {body: plainRequest, change: func(g *gateway) {
			g.state.Limits.Answer = 10
			g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
		}, status: 502, code: "upstream_too_large", says: "limits.answer"},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(*gateway) {}
			if c.change != nil {
				change = c.change
			}
			g := newGateway(t, change)
			header := asJSON
			if c.header != nil {
				header = c.header
			}
			resp, body := g.request(t, cmp.Or(c.method, http.MethodPost), cmp.Or(c.path, chatPath), c.body, header.Clone())
			wantError(t, resp, body, c.status, c.code)
			if want := `"param":"` + c.param + `"`; c.param != "" && !strings.Contains(body, want) || c.param == "" && !strings.Contains(body, `"param":null`) {
				t.Errorf("param: %s", body)
			}
			if got := resp.Header.Get("X-Should-Retry"); (got == "false") != (c.status == http.StatusUnauthorized) {
				t.Errorf("X-Should-Retry: %q", got)
			}
			if !strings.Contains(body, c.says) || strings.Contains(body, "127.0.0.1") {
				t.Errorf("the message lacks %q or shows an address: %s", c.says, body)
			}
			if want := map[bool]string{true: "POST", false: "GET, HEAD"}[c.path == ""]; c.status == 405 && resp.Header.Get("Allow") != want {
				t.Errorf("Allow: %q, want %q", resp.Header.Get("Allow"), want)
			}
			if c.status < 500 && len(g.up.Requests()) > 0 {
				t.Error("the upstream was called")
			}
		})
	}
}

// TestUpstreamErrorsPass checks that upstream errors reach the client unchanged, except
// for the gateway's credential.
func TestUpstreamErrorsPass(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		kind   string
	}{
		"bad request":  {400, `{"error" : {"message":"no \u00e9","type":"invalid_request_error","param":"messages.[0]","code":null, "extra":1.10}}` + "\n", "invalid_request"},
		"forbidden":    {403, `{"error":{"message":"m"}}`, "permission"},
		"not found":    {404, `{"object":"error","message":"no such model"}`, "not_found"},
		"a list":       {422, `[{"error":{"code":422}}]`, "invalid_request"},
		"rate limit":   {429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "rate_limit"},
		"server error": {500, `{"detail":[{"loc":["body"]}],"detail":2}`, "upstream"},
		"overloaded":   {503, `{"error":{"message":"m"}}`, "overloaded"},
		"timeout":      {504, `{"error":{"message":"m"}}`, "timeout"},
		"odd status":   {529, `{"error":{"message":"m"}}`, "overloaded"},
	} {
		for _, ask := range []string{plainRequest, streamRequest} {
			g := newGateway(t)
			g.up.Answer(upstreamtest.JSON(c.status, c.body, "Retry-After", "7", "Retry-After-Ms", "6500", "X-Ratelimit-Limit-Requests", "60", "X-Ratelimit-Reset-Tokens", "6m0s", "X-Should-Retry", "true", "Set-Cookie", "a=b"))
			resp, got, err := g.post(t, chatPath, ask)
			if err != nil || resp.StatusCode != c.status || got != c.body || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %v %s %v\n%s", name, err, resp.Status, resp.Header, got)
			}
			for header, want := range map[string]string{"Retry-After": "7", "Retry-After-Ms": "6500", "X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Reset-Tokens": "6m0s", "X-Should-Retry": "true", "Set-Cookie": ""} {
				if got := resp.Header.Get(header); got != want {
					t.Errorf("%s: %s is %q, want %q", name, header, got, want)
				}
			}
			g.wantLine(t, fmt.Sprintf(`"status":%d`, c.status), fmt.Sprintf(`"upstream_status":%d`, c.status), `"error_kind":"`+c.kind+`"`)
			if line := g.line(t); strings.Contains(line, "slow down") {
				t.Errorf("%s: the log quotes the upstream: %s", name, line)
			}
		}
	}
}

func TestUpstreamErrorsDoNotShowTheKey(t *testing.T) {
	for _, status := range []int{400, 401, 403, 429, 500} {
		g := newGateway(t)
		g.up.Answer(upstreamtest.JSON(status, `{"error":{"message":"Bearer `+upstreamKey+` is wrong; `+upstreamKey+`","code":"x"}}`,
			"X-Ratelimit-Key", upstreamKey, "Openai-Version", "a "+upstreamKey, "X-Request-Id", upstreamKey, "Www-Authenticate", upstreamKey))
		resp, got, err := g.post(t, chatPath, plainRequest)
		if err != nil || strings.Contains(got, upstreamKey) || strings.Contains(fmt.Sprint(resp.Header), upstreamKey) {
			t.Errorf("%d: %v, the key is shown: %v %s", status, err, resp.Header, got)
		}
		if want := `{"error":{"message":"Bearer *** is wrong; ***","code":"x"}}`; status != 401 && got != want {
			t.Errorf("%d: got %s", status, got)
		}
	}
}

func TestUpstreamRefusesOurKey(t *testing.T) {
	for _, ask := range []string{plainRequest, streamRequest} {
		g := newGateway(t)
		g.up.Answer(upstreamtest.JSON(http.StatusUnauthorized, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`, "Www-Authenticate", "Bearer"))
		resp, got, _ := g.post(t, chatPath, ask)
		wantError(t, resp, got, http.StatusBadGateway, "upstream_auth")
		if !strings.Contains(got, "provider 'up'") || !strings.Contains(got, "api_key") || resp.Header.Get("Www-Authenticate") != "" {
			t.Errorf("%s %v", got, resp.Header)
		}
		g.wantLine(t, `"upstream_status":401`, `"error_kind":"upstream_auth"`, `"outcome":"upstream_error"`)
	}
}

func TestErrorPagesAreTranslated(t *testing.T) {
	large := `{"error":{"message":"` + strings.Repeat("x", 1<<20) + `"}}`
	for name, c := range map[string]struct{ media, body string }{
		"HTML":      {"text/html", "<html><body>502 Bad Gateway</body></html>"},
		"text":      {"text/plain", "upstream connect error"},
		"brackets":  {"text/plain", "[error] no healthy upstream"},
		"Python":    {"application/json", "{'error': 'oops'}"},
		"nothing":   {"application/json", ""},
		"cut JSON":  {"application/json", `{"error":{"message":"m`},
		"too large": {"application/json", large},
	} {
		for _, status := range []int{400, 429, 502, 503} {
			g := newGateway(t)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				conn.Whole(status, c.media, c.body, "Retry-After", "3", "Connection", "close")
			})
			resp, got, err := g.post(t, chatPath, plainRequest)
			if err != nil {
				t.Fatal(name, err)
			}
			wantError(t, resp, got, status, "upstream_status")
			if resp.Header.Get("Retry-After") != "3" || len(got) > 300 {
				t.Errorf("%s: %v %s", name, resp.Header, got)
			}
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		g, other := newGateway(t), upstreamtest.New(t)
		other.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
		g.up.Answer(upstreamtest.JSON(status, `{}`, "Location", other.BaseURL()+"/chat/completions"))
		resp, got, err := g.post(t, chatPath, plainRequest)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, resp, got, http.StatusBadGateway, "upstream_redirect")
		if other.Opened() > 0 || len(g.up.Requests()) != 1 || resp.Header.Get("Location") != "" {
			t.Errorf("%d was followed or passed on: %v", status, resp.Header)
		}
	}
}

// TestTargetHeaderHoldsOnlyPlainText checks that a model name that the client chooses
// cannot inject characters into the target header.
func TestTargetHeaderHoldsOnlyPlainText(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	for model, want := range map[string]string{
		`any/a\r\nX-Evil: 1`:                  "up/a??X-Evil: 1",
		`any/é\u0000\u007f`:                   "up/???",
		"any/" + strings.Repeat("x", 100_000): "up/" + strings.Repeat("x", 253),
	} {
		resp, _, _ := g.post(t, chatPath, `{"model":"`+model+`"}`)
		if got := resp.Header.Get("Isogloss-Target"); got != want || resp.Header.Get("X-Evil") != "" {
			t.Errorf("%.40s: got %q", model, got)
		}
	}
}
