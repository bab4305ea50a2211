package relay

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// These tests hold requirements of docs/seeds.md that no other test holds.

func TestSeedEndpoints(t *testing.T) {
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
		if e, ok := endpointOf(httptest.NewRequest(http.MethodPost, path, nil)); e.name != want || ok != (want != "") {
			t.Errorf("%s is %q, want %q", path, e.name, want)
		}
	}
}

// What routing reads is read; every other member is there by its name alone.
func TestSeedProjection(t *testing.T) {
	p, err := project([]byte(`{"model":"m","messages":[{"role":"user","content":"CANARY"}],"n":3,"stream":true,"stream_options":{"include_usage":true},
		"tools":[],"tool_choice":"auto","parallel_tool_calls":false,"response_format":{},"reasoning_effort":"low","max_completion_tokens":5,"temperature":0,"top_p":1.0}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.model != "m" || !p.stream || !p.usage || p.n != 3 {
		t.Errorf("%+v", p)
	}
	for name, want := range map[string]string{
		"tools": "[]", "tool_choice": `"auto"`, "parallel_tool_calls": "false", "response_format": "{}", "reasoning_effort": `"low"`,
		"max_completion_tokens": "5", "temperature": "0", "top_p": "1.0", "verbosity": "",
	} {
		if got := string(p.raw(name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	p, err = project([]byte(`{"model":"m"}`))
	if err != nil || p.stream || p.usage || p.n != 1 {
		t.Errorf("without a word about streaming: %+v %v", p, err)
	}
}

// What others judge differently is the upstream's to judge.
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
			g := newGateway(t, nvExt(provider.NvExtForward))
			if resp, got, err := g.post(t, c.path, c.body); err != nil || got != plainAnswer {
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
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainAnswer))
	seen := map[string]bool{}
	for range 3 {
		resp, _, err := g.post(t, chatPath, plainAsk)
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

// Dynamo tells annotations in events without data. They reach a client that streams
// as they are, and are not in a collected answer; its nvext member is in both.
func TestSeedAnnotationFrames(t *testing.T) {
	stream := "event: request_id\n: \"7\"\n\n" + wordChunk +
		`data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"nvext":{"timing":{"ttft_ms":1.10}}}` + "\n\ndata: [DONE]\n\n"
	g := newGateway(t, nvExt(provider.NvExtForward), alwaysStream)
	g.up.Answer(upstreamtest.StreamRandom(stream, 2))
	if _, got, err := g.post(t, chatPath, strings.Replace(streamAsk, "{", `{"nvext":{"annotations":["request_id"]},`, 1)); err != nil || got != stream {
		t.Errorf("%v, the client got\n%s", err, got)
	}
	if _, got, err := g.post(t, chatPath, plainAsk); err != nil || !strings.Contains(got, `"content":"hi"`) || !strings.Contains(got, `"nvext":{"timing":{"ttft_ms":1.10}}`) {
		t.Errorf("%v, the client got\n%s", err, got)
	}
}

// A Chat request for a Messages upstream: what is sent, and what is told of losses.
func TestSeedAcrossDialects(t *testing.T) {
	for name, c := range map[string]struct {
		ask  string   // the members after the model
		sent []string // parts of what the upstream gets; none: the request is refused
		code string   // of a loss, or of the refusal
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

// K54: our own comments do not keep a silent upstream alive.
func TestSeedKeepAlivesAreNoActivity(t *testing.T) {
	g := newGateway(t, keepAlive(time.Millisecond), within(never, 50*time.Millisecond, never))
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(textChunk)
		c.Gone(never)
	})
	_, body, err := g.post(t, chatPath, streamAsk)
	if err != nil {
		t.Fatal(err)
	}
	rest, comments := withoutComments(t, body)
	if code, _ := readErrorEvent(t, rest, textChunk); code != "timeout_idle" || comments == 0 {
		t.Errorf("code %s after %d comments", code, comments)
	}
}
