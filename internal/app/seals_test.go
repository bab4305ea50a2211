package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestSealsAndConversationsOfOneKey checks that sealed reasoning and stored conversations
// of one key are of no use to another, neither of the same organisation nor of another:
// the other key repeats the very request of the first.
func TestSealsAndConversationsOfOneKey(t *testing.T) {
	const signature = "c2VhbGVkLXJlYXNvbmluZw"
	up := upstreamtest.New(t)
	up.Answer(func(c *upstreamtest.Conn) {
		c.KeepAlive()
		if strings.HasSuffix(c.Request.Path, "/messages") {
			c.Whole(http.StatusOK, "application/json", `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"`+signature+`"},`+
				`{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`)
			return
		}
		c.Whole(http.StatusOK, "application/json", `{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"the canary"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	})
	configuration := strings.ReplaceAll(everyDialect(up, t.TempDir(), ""), `/v1" }`, `/v1", upstream_stream: mirror }`)
	keys := keyringOf(t, configuration)
	owner := keys.keyOf(t, "o1")
	others := []secret.String{keys.keyOf(t, "o1"), keys.keyOf(t, "o2")}
	g := start(t, configuration, pace{})

	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"reasoning_effort":"low","max_completion_tokens":4000`
	ask := `{"model":"claude/m","messages":[{"role":"user","content":"hi"}],` + tools + `}`
	next := `{"model":"claude/m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},` +
		`{"role":"tool","tool_call_id":"toolu_1","content":"2"}],` + tools + `}`
	restores := func(key secret.String) bool {
		t.Helper()
		if status, text := g.post(t, key, "/v1/chat/completions", next); status != http.StatusOK {
			t.Fatal(status, text)
		}
		return strings.Contains(string(up.Last(t).Body), signature)
	}
	if status, text := g.post(t, owner, "/v1/chat/completions", ask); status != http.StatusOK {
		t.Fatal(status, text)
	}
	for _, key := range others {
		if restores(key) {
			t.Error("another key got the sealed reasoning")
		}
	}
	if !restores(owner) {
		t.Errorf("the owner did not get its sealed reasoning: %s", up.Last(t).Body)
	}

	status, text := g.post(t, owner, "/v1/responses", `{"model":"chat/m","input":"hi"}`)
	var created struct {
		ID     string
		Output []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(text), &created); err != nil || status != http.StatusOK || len(created.Output) == 0 {
		t.Fatal(status, text, err)
	}
	for _, body := range []string{
		`{"model":"chat/m","input":"go on","previous_response_id":"` + created.ID + `"}`,
		`{"model":"chat/m","input":[{"type":"item_reference","id":"` + created.Output[0].ID + `"}]}`,
	} {
		if status, text := g.post(t, owner, "/v1/responses", body); status != http.StatusOK || !strings.Contains(string(up.Last(t).Body), "canary") {
			t.Errorf("the owner cannot continue its conversation: %d %s", status, text)
		}
		for _, key := range others {
			before := len(up.Requests())
			if status, text := g.post(t, key, "/v1/responses", body); status != http.StatusBadRequest || len(up.Requests()) != before || strings.Contains(text, "canary") {
				t.Errorf("another key continues the conversation: %d %s", status, text)
			}
		}
	}
}
