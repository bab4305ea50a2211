package relay

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// These tests cover requirements of docs/evidence/seeds.md that no other test covers.

func TestSeedEndpoints(t *testing.T) {
	routes := ingress.NewTable(all.Dialects())
	for path, want := range map[string]string{
		"/v1/chat/completions":      "chat_completions",
		"/v1/completions":           "completions",
		"/v1/embeddings":            "embeddings",
		"/v1/rerank":                "rerank",
		"/v1/models":                "",
		"/v1/models/m":              "",
		"/v1/models/vendor/m":       "",
		"/v1/audio/speech":          "",
		"/v1/images/generations":    "",
		"/v1/chat/completions/":     "",
		"/v1/chat/completions/x":    "",
		"/V1/chat/completions":      "",
		"/dynamo/alpha/list-models": "",
	} {
		if e, ok, _ := routes.Locate(httptest.NewRequest(http.MethodPost, path, nil)); ok != (want != "") || ok && e.Name != want {
			t.Errorf("%s leads to %+v, want %q", path, e.Location, want)
		}
	}
}

// TestSeedProjection checks the members that routing parses, and that every other member
// is available by name.
func TestSeedProjection(t *testing.T) {
	p, err := readChat([]byte(`{"model":"m","messages":[{"role":"user","content":"CANARY"}],"n":3,"stream":true,"stream_options":{"include_usage":true},
		"tools":[],"tool_choice":"auto","parallel_tool_calls":false,"response_format":{},"reasoning_effort":"low","max_completion_tokens":5,"temperature":0,"top_p":1.0}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.Model != "m" || !p.Stream || !p.Usage || p.Choices != 3 {
		t.Errorf("%+v", p)
	}
	for name, want := range map[string]string{
		"tools": "[]", "tool_choice": `"auto"`, "parallel_tool_calls": "false", "response_format": "{}", "reasoning_effort": `"low"`,
		"max_completion_tokens": "5", "temperature": "0", "top_p": "1.0", "verbosity": "",
	} {
		if got := string(p.Raw(name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	p, err = readChat([]byte(`{"model":"m"}`))
	if err != nil || p.Stream || p.Usage || p.Choices != 1 {
		t.Errorf("without a word about streaming: %+v %v", p, err)
	}
}

// TestSeedBodiesPass checks that the gateway does not reject members that some gateways
// validate: the upstream decides.
func TestSeedBodiesPass(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"unknown members":                {chatPath, `{"model":"real-chat","enable_thinking":true,"messages":[{"role":"user","content":"x","prefix":1.10}]}`},
		"top_logprobs alone":             {chatPath, `{"model":"real-chat","top_logprobs":5}`},
		"search context of another name": {chatPath, `{"model":"real-chat","web_search_options":{"search_context_size":"small"}}`},
		"bias with a fraction":           {chatPath, `{"model":"real-chat","logit_bias":{"1":-0.5}}`},
		"many stop sequences":            {chatPath, `{"model":"real-chat","stop":["a","b","c","d","e","f"]}`},
		"both limits":                    {chatPath, `{"model":"real-chat","max_tokens":5,"max_completion_tokens":6}`},
		"an effort of tomorrow":          {chatPath, `{"model":"real-chat","reasoning_effort":"ultra"}`},
		"sampling in both places":        {chatPath, `{"model":"real-chat","top_k":1,"ignore_eos":true,"nvext":{"top_k":2,"ignore_eos":false,"annotations":["token_ids","timing","of tomorrow"]}}`},
		"custom tools":                   {chatPath, `{"model":"real-chat","tools":[{"type":"custom","custom":{"name":"c"}}],"tool_choice":{"type":"custom","custom":{"name":"c"}}}`},
		"text to embed":                  {"/v1/embeddings", `{"model":"real-chat","input":"a","user":"u"}`},
		"texts to embed":                 {"/v1/embeddings", `{"model":"real-chat","input":["a","b"],"encoding_format":"base64"}`},
		"tokens to embed":                {"/v1/embeddings", `{"model":"real-chat","input":[1,2]}`},
		"lists of tokens to embed":       {"/v1/embeddings", `{"model":"real-chat","input":[[1,2],[3]],"dimensions":8}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, nvExt(provider.ForwardExtensions))
			if resp, got, err := g.post(t, c.path, c.body); err != nil || got != plainResponse {
				t.Fatalf("%v %s %s", err, resp.Status, got)
			}
			if sent := g.up.Last(t); string(sent.Body) != c.body || sent.Path != c.path {
				t.Errorf("the upstream got %s at %s", sent.Body, sent.Path)
			}
		})
	}
}

func TestSeedRequestIDs(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	seen := map[string]bool{}
	for range 3 {
		resp, _, err := g.post(t, chatPath, plainRequest)
		if err != nil {
			t.Fatal(err)
		}
		id, err := uuid.Parse(resp.Header.Get("X-Request-Id"))
		if err != nil || id.Version() != 4 || seen[id.String()] {
			t.Errorf("the request's id is %s: %v", id, err)
		}
		seen[id.String()] = true
	}
}

// TestSeedAnnotationFrames checks Dynamo's annotations, which are events without data. A
// streaming client gets them unchanged and a collected response omits them. The nvext
// member is in both.
func TestSeedAnnotationFrames(t *testing.T) {
	stream := "event: request_id\n: \"7\"\n\n" + wordChunk +
		`data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"nvext":{"timing":{"ttft_ms":1.10}}}` + "\n\ndata: [DONE]\n\n"
	g := newGateway(t, nvExt(provider.ForwardExtensions), alwaysStream)
	g.up.Answer(upstreamtest.StreamRandom(stream, 2))
	if _, got, err := g.post(t, chatPath, strings.Replace(streamRequest, "{", `{"nvext":{"annotations":["request_id"]},`, 1)); err != nil || got != stream {
		t.Errorf("%v, the client got\n%s", err, got)
	}
	if _, got, err := g.post(t, chatPath, plainRequest); err != nil || !strings.Contains(got, `"content":"hi"`) || !strings.Contains(got, `"nvext":{"timing":{"ttft_ms":1.10}}`) {
		t.Errorf("%v, the client got\n%s", err, got)
	}
}

// TestSeedAcrossDialects sends Chat requests to a Messages upstream and checks the
// upstream request and the reported losses.
func TestSeedAcrossDialects(t *testing.T) {
	for name, c := range map[string]struct {
		ask  string   // the members after the model
		sent []string // parts of the upstream request; nil: the request is rejected
		code string   // of the reported loss or of the error
	}{
		"user":              {`"user":"u","messages":[{"role":"user","content":"x"}]`, []string{`"metadata":{"user_id":"u"}`}, "max_tokens.defaulted"},
		"safety identifier": {`"safety_identifier":"s","messages":[{"role":"user","content":"x"}]`, []string{`"metadata":{"user_id":"s"}`}, "max_tokens.defaulted"},
		"obfuscation":       {`"stream_options":{"include_obfuscation":false},"messages":[{"role":"user","content":"x"}]`, []string{`"content":"x"`}, "ext.unknown_field"},
		"seed":              {`"seed":7,"messages":[{"role":"user","content":"x"}]`, []string{`"content":"x"`}, "seed.unsupported"},
		"penalties":         {`"frequency_penalty":1,"messages":[{"role":"user","content":"x"}]`, []string{`"content":"x"`}, "frequency_penalty.unsupported"},
		"prediction":        {`"prediction":{"type":"content","content":"p"},"messages":[{"role":"user","content":"x"}]`, []string{`"content":"x"`}, "ext.unknown_field"},
		"several choices":   {`"n":2,"messages":[{"role":"user","content":"x"}]`, nil, "n.unsupported"},
		"old functions": {`"functions":[{"name":"f"}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}},{"role":"function","name":"f","content":"r"}]`,
			[]string{`"name":"f","input":{}`, `"type":"tool_result","tool_use_id":"call_`}, "max_tokens.defaulted"},
		"a function without its call": {`"functions":[{"name":"f"}],"messages":[{"role":"user","content":"x"},{"role":"function","name":"f","content":"r"}]`, nil, "tool_result.orphan"},
		"parts of a file": {`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]`,
			[]string{`"source":{"type":"base64","media_type":"image/png","data":"AAAA"}`}, "max_tokens.defaulted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, func(g *gateway) { g.provider.Protocol, g.provider.Auth = protocol.Anthropic, provider.XAPIKey })
			g.up.Answer(upstreamtest.JSON(http.StatusOK, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`))
			resp, got, err := g.post(t, chatPath, `{"model":"real-chat",`+c.ask+`}`)
			if err != nil {
				t.Fatal(err)
			}
			if c.sent == nil {
				if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, c.code) || len(g.up.Requests()) > 0 {
					t.Errorf("%s %s, want a refusal with %s", resp.Status, got, c.code)
				}
				return
			}
			if resp.StatusCode != http.StatusOK || !strings.Contains(got, `"content":"hi"`) || !strings.Contains(resp.Header.Get("Isogloss-Fidelity"), c.code) {
				t.Errorf("%s %v, want the code %s\n%s", resp.Status, resp.Header, c.code, got)
			}
			for _, want := range c.sent {
				if sent := string(g.up.Last(t).Body); !strings.Contains(sent, want) {
					t.Errorf("the upstream got %s\nwant %s", sent, want)
				}
			}
		})
	}
}

// TestSeedKeepAlivesAreNoActivity checks that the gateway's keep-alive comments do not
// reset the upstream's idle timeout (K54).
func TestSeedKeepAlivesAreNoActivity(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, keepAlive(time.Second), within(never, 50*time.Second, never))
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.BeginStream()
			c.Chunk(textChunk)
			c.Gone(never)
		})
		_, body, err := g.post(t, chatPath, streamRequest)
		if err != nil {
			t.Fatal(err)
		}
		rest, comments := withoutComments(t, body)
		if code, _ := readErrorEvent(t, rest, textChunk); code != "timeout_idle" || comments < 49 {
			t.Errorf("code %s after %d comments", code, comments)
		}
	})
}
