package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// cloudUpstream plays a cloud that serves a model with signed reasoning.
type cloudUpstream struct {
	*httptest.Server
	mu     sync.Mutex
	down   bool
	bodies []string
}

const (
	cloudSeal     = "c2lnbmF0dXJlLTE="
	cloudRedacted = "cmVkYWN0ZWQtMQ=="
)

func newCloudUpstream(t *testing.T) *cloudUpstream {
	u := &cloudUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		down := u.down
		if u.bodies = append(u.bodies, string(body)); down {
			u.bodies = nil
		}
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case down:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"message":"down"}`)
		case strings.HasSuffix(r.URL.Path, "/converse"):
			_, _ = io.WriteString(w, `{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"`+cloudSeal+`"}}},{"reasoningContent":{"redactedContent":"`+cloudRedacted+`"}},{"toolUse":{"toolUseId":"toolu_01","name":"f","input":{}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}`)
		default:
			_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm.","signature":"`+cloudSeal+`"},{"type":"redacted_thinking","data":"`+cloudRedacted+`"},{"type":"tool_use","id":"toolu_01","name":"f","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *cloudUpstream) setDown(down bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down, u.bodies = down, nil
}

// last returns the last request, or "".
func (u *cloudUpstream) last() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.bodies) == 0 {
		return ""
	}
	return u.bodies[len(u.bodies)-1]
}

// cloudClient is a client of one dialect.
type cloudClient struct {
	path, first string
	second      func(response []byte) string // the next request, with the turn that it received
}

func cloudClients() map[string]cloudClient {
	member := func(body []byte, names ...string) string {
		for _, name := range names {
			var o map[string]json.RawMessage
			var list []json.RawMessage
			if json.Unmarshal(body, &list) == nil && len(list) > 0 {
				body = list[0]
			}
			_ = json.Unmarshal(body, &o)
			body = o[name]
		}
		return string(body)
	}
	const (
		tool         = `"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}]`
		converseTool = `"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]}`
		chatTool     = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	)
	return map[string]cloudClient{
		"messages": {"/v1/messages", `{"model":"MODEL","max_tokens":2000,` + tool + `,"messages":[{"role":"user","content":"Go."}]}`, func(b []byte) string {
			return `{"model":"MODEL","max_tokens":2000,` + tool + `,"messages":[{"role":"user","content":"Go."},{"role":"assistant","content":` + member(b, "content") + `},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":"1"}]}]}`
		}},
		"converse": {"/model/MODEL/converse", `{` + converseTool + `,"messages":[{"role":"user","content":[{"text":"Go."}]}]}`, func(b []byte) string {
			return `{` + converseTool + `,"messages":[{"role":"user","content":[{"text":"Go."}]},` + member(b, "output", "message") + `,{"role":"user","content":[{"toolResult":{"toolUseId":"toolu_01","content":[{"text":"1"}]}}]}]}`
		}},
		"chat": {"/v1/chat/completions", `{"model":"MODEL",` + chatTool + `,"messages":[{"role":"user","content":"Go."}]}`, func(b []byte) string {
			return `{"model":"MODEL",` + chatTool + `,"messages":[{"role":"user","content":"Go."},` + member(b, "choices", "message") + `,{"role":"tool","tool_call_id":"toolu_01","content":"1"}]}`
		}},
	}
}

// TestAliasOverClouds has one model name over all clouds. The signatures that one cloud's Claude
// makes reach that of another when the first one fails. Those of another maker's model do not, and
// the response says so.
func TestAliasOverClouds(t *testing.T) {
	names := []string{"anthropic", "vertex", "bedrock", "converse"}
	ups := map[string]*cloudUpstream{}
	config := "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nlog: { level: error }\nretries: { attempts: 2 }\nproviders:\n"
	for name, preset := range map[string]string{"anthropic": "preset: anthropic", "vertex": "preset: vertex-anthropic, region: us-east5, project: p-1", "bedrock": "preset: bedrock, region: us-east-1", "converse": "preset: bedrock-converse, region: us-east-1", "nova": "preset: bedrock-converse, region: us-east-1"} {
		ups[name] = newCloudUpstream(t)
		config += fmt.Sprintf("  %s: { %s, base_url: %q, api_key: sk-1 }\n", name, preset, ups[name].URL)
	}
	targets := map[string]string{"anthropic": "anthropic/claude-sonnet-4-5", "vertex": "vertex/claude-sonnet-4-5@20250929", "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
		"converse": "converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "nova": "nova/us.amazon.nova-pro-v1:0"}
	config += "models:\n"
	pair := func(a, b string) string {
		if a == "nova" || b == "nova" {
			return "mixed-" + a + "-" + b
		}
		return "claude-" + a + "-" + b
	}
	for _, a := range append(names, "nova") {
		for _, b := range append(names, "nova") {
			if a != b {
				config += fmt.Sprintf("  %s: { targets: [%q, %q], balance: order }\n", pair(a, b), targets[a], targets[b])
			}
		}
	}
	post := func(t *testing.T, url, body string) (*http.Response, []byte) {
		t.Helper()
		resp, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s %v", resp.Status, answer, err)
		}
		return resp, answer
	}
	for kind, client := range cloudClients() {
		for _, a := range append(names, "nova") {
			base, stop, err := startGateway(t.Context(), []byte(config)) // a new one has no ejected targets
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range names {
				if a == b || kind == "converse" && a == "nova" && b == "converse" { // bytes of the same dialect are not read
					continue
				}
				t.Run(kind+" "+a+" to "+b, func(t *testing.T) {
					model := func(s string) string { return strings.ReplaceAll(s, "MODEL", pair(a, b)) }
					ups[a].setDown(false)
					_, answer := post(t, base+model(client.path), model(client.first))
					ups[a].setDown(true)
					defer ups[a].setDown(false)
					if ups[b].setDown(false); !bytes.Contains(answer, []byte("toolu_01")) {
						t.Fatalf("%s", answer)
					}
					resp, _ := post(t, base+model(client.path), model(client.second(answer)))
					sent := ups[b].last()
					keeps := a != "nova"
					if strings.Contains(sent, cloudSeal) != keeps || strings.Contains(sent, cloudRedacted) != keeps || strings.Contains(sent, "aXNvZ2xvc3M6") {
						t.Errorf("sent %s\nafter %s", sent, answer)
					}
					if f := resp.Header.Get("Isogloss-Fidelity"); !keeps && !strings.Contains(f, "reasoning.foreign") {
						t.Errorf("fidelity %s", f)
					}
				})
			}
			stop()
		}
	}
}
