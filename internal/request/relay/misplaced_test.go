package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// cursorRequest is a Responses request as Cursor sends it to the path of Chat Completions.
const cursorRequest = `{"model":"m","stream":true,"user":"u1","instructions":"Be brief.","store":true,"include":["reasoning.encrypted_content"],"max_output_tokens":100,` +
	`"input":[{"role":"user","content":[{"type":"input_text","text":"How warm?"}]},` +
	`{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"city\":\"Rome\"}"},{"type":"function_call_output","call_id":"call_1","output":"21 degrees"},` +
	`{"role":"user","content":"And in F?"}],` +
	`"tools":[{"type":"function","name":"read","description":"reads","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}],"tool_choice":"auto"}`

// TestResponsesBodyToChat checks that a Responses body at the path of Chat Completions is read as
// what it is, on upstreams of every dialect, and that the response is a chat completion.
func TestResponsesBodyToChat(t *testing.T) {
	c := sharedCase(t, "text")
	for _, upstream := range textDialects {
		for _, stream := range []bool{false, true} {
			g := newGateway(t, speaking(upstream))
			if stream {
				g.up.Answer(upstreamtest.Stream(c.stream(upstream)))
			} else {
				g.up.Answer(upstreamtest.JSON(http.StatusOK, c.whole(upstream)))
			}
			for _, usage := range []bool{false, true} {
				ask := withStream(cursorRequest, stream)
				if usage {
					ask = strings.Replace(ask, `{`, `{"stream_options":{"include_usage":true},`, 1)
				}
				resp, body, _ := g.post(t, chatPath, ask)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %s %s", upstream, resp.Status, body)
				}
				want := readWhole(t, upstream, c.whole(upstream))
				if !usage && stream {
					want, _, _ = strings.Cut(want, "usage ")
				}
				read := readWhole
				if stream {
					read = readStream
				}
				if got := read(t, chatDialect, body); got != want {
					t.Errorf("%s, stream %v: the client reads\n%swant\n%s%s", upstream, stream, got, want, body)
				}
				if f := resp.Header.Get("Isogloss-Fidelity"); !strings.Contains(f, "request.other_api") || upstream == chatDialect && !strings.HasPrefix(f, "approximated;a=1;d=0") {
					t.Errorf("%s: %s", upstream, f)
				}
				sent := string(g.up.Last(t).Body)
				for _, part := range []string{"Be brief.", "How warm?", "And in F?", "21 degrees", "Rome", "read"} {
					if !strings.Contains(sent, part) {
						t.Errorf("%s: %q is not in %s", upstream, part, sent)
					}
				}
				if strings.Contains(sent, `"input":[`) != (upstream == responsesDialect) || strings.Contains(sent, `"include_usage"`) && upstream != chatDialect || strings.Contains(sent, `"store":true`) {
					t.Errorf("%s: sent %s", upstream, sent)
				}
			}
		}
	}
}

// TestResponsesBodyToChatRefused checks that nothing is served at the path of Chat Completions that
// only that of Responses checks.
func TestResponsesBodyToChatRefused(t *testing.T) {
	g := newGateway(t, speaking(responsesDialect))
	for _, c := range []struct{ member, param string }{
		{`"previous_response_id":"resp_1"`, "previous_response_id"},
		{`"background":true`, "background"},
		{`"tools":[{"type":"image_generation","model":"dear"}]`, "tools[].model"},
		{`"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]`, "tools[].vector_store_ids"},
	} {
		resp, body, _ := g.post(t, chatPath, `{"model":"m","input":"Hi",`+c.member+`}`)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"param":"`+c.param) || !strings.Contains(body, "/v1/responses") || c.param == "background" && strings.Contains(body, "conversation") {
			t.Errorf("%s: %s %s", c.member, resp.Status, body)
		}
	}
	resp, body, _ := g.post(t, chatPath, `{"model":"m","input":"Hi","Max_output_tokens":5}`)
	if resp.StatusCode != http.StatusBadRequest || len(g.up.Requests()) > 0 {
		t.Errorf("a member in another case: %s %s", resp.Status, body)
	}
	g = newGateway(t) // messages come first, and embeddings have an input of their own
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	const both = `{"model":"real-chat","input":"x","messages":[{"role":"user","content":"Hi"}]}`
	if resp, body, _ := g.post(t, chatPath, both); resp.StatusCode != http.StatusOK || resp.Header.Get("Isogloss-Fidelity") != "exact" || string(g.up.Last(t).Body) != both {
		t.Errorf("%s %s", resp.Status, body)
	}
}
