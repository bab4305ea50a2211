package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// storingResponses enables stored responses.
func storingResponses(g *gateway) { g.state.Limits.Conversations = 64 << 20 }

// responseBody has the members of a Responses API response that the tests read.
type responseBody struct {
	ID       string            `json:"id"`
	Previous string            `json:"previous_response_id"`
	Output   []json.RawMessage `json:"output"`
}

// createResponse sends a request and reads its response, streaming or not.
func (g *gateway) createResponse(t *testing.T, stream bool, ask map[string]any, headers ...string) responseBody {
	t.Helper()
	ask["model"], ask["stream"], ask["max_output_tokens"] = "m", stream, 99
	body, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	resp, text, err := g.post(t, "/v1/responses", string(body), headers...)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v %s", resp.Status, err, text)
	}
	if !stream {
		return parse[responseBody](t, text)
	}
	_, last, ok := strings.Cut(text, "event: response.completed\ndata: ")
	if !ok {
		t.Fatalf("no last event: %s", text)
	}
	return parse[struct{ Response responseBody }](t, last).Response
}

func parse[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

type item = map[string]any

func userMessage(text string) item { return item{"role": "user", "content": text} }

// references returns an item_reference for each item, as the AI SDK sends them.
func references(t *testing.T, items []json.RawMessage) (refs []any) {
	t.Helper()
	for _, raw := range items {
		refs = append(refs, item{"type": "item_reference", "id": parse[struct{ ID string }](t, string(raw)).ID})
	}
	return refs
}

// withItems returns a list with the items of a response in it.
func withItems(before []any, items []json.RawMessage, after ...any) []any {
	for _, raw := range items {
		before = append(before, raw)
	}
	return append(before, after...)
}

// responseID matches a response's id in the shared cases.
var responseID = regexp.MustCompile(`"(c1|msg_1|g1)"`)

// respondWithNewID makes the upstream respond with a shared case under a new id, as
// vendors do.
func respondWithNewID(g *gateway, s shared, upstream protocol.Name, stream bool) {
	id := fmt.Sprintf(`"${1}%d"`, len(g.up.Requests()))
	if stream {
		g.up.Answer(upstreamtest.Stream(responseID.ReplaceAllString(s.stream(upstream), id)))
		return
	}
	g.up.Answer(upstreamtest.JSON(200, responseID.ReplaceAllString(s.whole(upstream), id)))
}

// TestReferencesExpandToTheSameRequest checks that a request with references and a
// request that repeats the conversation produce the same upstream request, byte for byte.
// In three turns the second refers to the first and the third to the second (RSP-17,
// RSP-18).
func TestReferencesExpandToTheSameRequest(t *testing.T) {
	tool := []any{item{"type": "function", "name": "get_weather", "parameters": item{"type": "object", "properties": item{}}, "strict": false}}
	for _, upstream := range []protocol.Name{chatDialect, anthropicDialect, geminiDialect} {
		for _, stream := range []bool{false, true} {
			for _, name := range []string{"tools", "reasoning"} {
				t.Run(fmt.Sprintf("%s on %s, stream %v", name, upstream, stream), func(t *testing.T) {
					first := sharedCase(t, name)
					g := newGateway(t, speaking(upstream), storingResponses)
					respondWithNewID(g, first, upstream, stream)
					one := g.createResponse(t, stream, item{"input": "Weather?", "tools": tool, "instructions": "Be brief."})
					var results []any
					for _, raw := range one.Output {
						if call := parse[struct{ Type, CallID string }](t, strings.Replace(string(raw), `"call_id"`, `"CallID"`, 1)); call.Type == "function_call" {
							results = append(results, item{"type": "function_call_output", "call_id": call.CallID, "output": "4 °C"})
						}
					}
					results = append(results, userMessage("And tomorrow?"))
					ask := func(input []any, previous string) responseBody {
						t.Helper()
						respondWithNewID(g, sharedCase(t, "text"), upstream, stream)
						r := item{"input": input, "tools": tool, "instructions": "Be brief."}
						if previous != "" {
							r["previous_response_id"] = previous
						}
						return g.createResponse(t, stream, r)
					}
					last := func() string { return string(g.up.Last(t).Body) }

					opening := []any{userMessage("Weather?")}
					ask(withItems(opening, one.Output, results...), "")
					want := last()
					two := ask(results, one.ID)
					if last() != want || two.Previous != one.ID {
						t.Errorf("with previous_response_id %s\nwant %s", last(), want)
					}
					ask(slices.Concat(opening, references(t, one.Output), results), "")
					if last() != want {
						t.Errorf("with item_reference %s\nwant %s", last(), want)
					}
					whole := withItems(withItems(opening, one.Output, results...), two.Output, userMessage("Thanks."))
					ask(whole, "")
					want = last()
					ask([]any{userMessage("Thanks.")}, two.ID)
					if last() != want {
						t.Errorf("two turns back %s\nwant %s", last(), want)
					}
				})
			}
		}
	}
}

// TestUnknownReferencesAreRejected checks that a reference to a response that is not
// stored is rejected with the error code of OpenAI's API and a message that explains what
// to send instead.
func TestUnknownReferencesAreRejected(t *testing.T) {
	const byID, byItem = `{"model":"m","previous_response_id":%q,"input":"Hi"}`, `{"model":"m","input":[{"type":"item_reference","id":%q},{"role":"user","content":"Hi"}]}`
	keys := func(g *gateway) {
		g.state.Keys = access.NewKeys([]access.Key{{Secret: "sk-alice"}, {Secret: "sk-bob"}})
	}
	for name, c := range map[string]struct {
		change  func(g *gateway)
		between func(g *gateway)
		ask     item
		key     string
	}{
		"another caller's": {key: "sk-bob"},
		"of store false":   {ask: item{"store": false}},
		"of another process": {between: func(g *gateway) {
			g.relay.responses = conversation.NewResponses()
			g.relay.responses.SetMaxBytes(64 << 20)
		}},
		"evicted": {change: func(g *gateway) { g.state.Limits.Conversations = 4 << 10 }, between: func(g *gateway) {
			for i := range 10 { // by later ones of the same key
				g.up.Answer(upstreamtest.JSON(200, strings.Replace(chatResponse, `"id":"c"`, fmt.Sprintf(`"id":"c%d"`, i), 1)))
				g.createResponse(t, false, item{"input": strings.Repeat("x", 1<<10)}, "Authorization", "Bearer sk-alice")
			}
		}},
		"too large": {ask: item{"input": strings.Repeat("x", 8<<20)}},
		"with an id of two responses": {between: func(g *gateway) {
			g.up.Answer(upstreamtest.JSON(200, strings.Replace(chatResponse, `"Hi"`, `"Ho"`, 1)))
			g.createResponse(t, false, item{"input": "another"}, "Authorization", "Bearer sk-alice")
		}},
		"off": {change: func(g *gateway) { g.state.Limits.Conversations = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []func(*gateway){speaking(chatDialect), storingResponses, keys}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			g := newGateway(t, changes...)
			g.up.Answer(upstreamtest.JSON(200, chatResponse))
			first := item{"input": "Hi"}
			for k, v := range c.ask {
				first[k] = v
			}
			one := g.createResponse(t, false, first, "Authorization", "Bearer sk-alice")
			if c.between != nil {
				c.between(g)
			}
			before := len(g.up.Requests())
			key := c.key
			if key == "" {
				key = "sk-alice"
			}
			codes := map[string]string{fmt.Sprintf(byID, one.ID): "previous_response_not_found"}
			if name != "too large" { // only the request is too large to store; the response's items are stored
				codes[fmt.Sprintf(byItem, parse[struct{ ID string }](t, string(one.Output[0])).ID)] = "item_not_found"
			}
			for ask, code := range codes {
				resp, body, _ := g.post(t, "/v1/responses", ask, "Authorization", "Bearer "+key)
				f := readFault(t, responsesDialect, body)
				if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"code":"`+code+`"`) || !strings.Contains(f.message, "send the whole conversation") || len(g.up.Requests()) != before {
					t.Errorf("%s: %s %s", ask, resp.Status, body)
				}
			}
		})
	}
}

// TestReferencesForOpenAI checks that references to responses stored by the gateway are
// expanded for an OpenAI upstream and that references to OpenAI's own responses stay
// unchanged.
func TestReferencesForOpenAI(t *testing.T) {
	g := newGateway(t, speaking(chatDialect), storingResponses)
	g.up.Answer(upstreamtest.JSON(200, chatResponse))
	one := g.createResponse(t, false, item{"input": "Weather?"})

	vendor, state := *g.provider, *g.state
	vendor.Protocol = responsesDialect
	g.provider = &vendor
	state.Routes = route.New(g.routes())
	g.relay.Use(&state)
	g.up.Answer(upstreamtest.JSON(200, `{"id":"resp_v","object":"response","status":"completed","model":"m","output":[]}`))
	ask := func(body string) string {
		t.Helper()
		if resp, text, _ := g.post(t, "/v1/responses", body); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s", resp.Status, text)
		}
		return string(g.up.Last(t).Body)
	}
	want := `{"model":"m", "top_p":1.0,"input":[{"type":"message","role":"user","content":"Weather?"},` + string(one.Output[0]) + `,{"type":"message","role":"user","content":"Thanks."}]}`
	if got := ask(`{"model":"m", "top_p":1.0,"previous_response_id":"` + one.ID + `","input":"Thanks."}`); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("OpenAI gets %s\nwant %s", got, want)
	}
	for _, theirs := range []string{
		`{"model":"m", "previous_response_id":"resp_theirs","input":"Thanks."}`,
		`{"model":"m", "input":[{"type":"item_reference","id":"msg_theirs"},{"role":"user","content":"x"}]}`,
		`{"model":"m", "input":[{"id":"msg_theirs"}]}`,
	} {
		if got := ask(theirs); got != theirs {
			t.Errorf("OpenAI gets %s for %s", got, theirs)
		}
	}
}

// TestFailedStreamIsNotStored checks that the response of a failed stream cannot be
// referenced.
func TestFailedStreamIsNotStored(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect), storingResponses)
	cut := sharedCase(t, "text").stream(anthropicDialect)
	begun, _, _ := strings.Cut(cut, "event: content_block_stop")
	g.up.Answer(upstreamtest.Stream(begun))
	_, body, _ := g.post(t, "/v1/responses", `{"model":"m","stream":true,"max_output_tokens":9,"input":"Hi"}`)
	_, last, ok := strings.Cut(body, "event: response.failed\ndata: ")
	if !ok {
		t.Fatalf("it did not fail: %s", body)
	}
	id := parse[struct{ Response responseBody }](t, last).Response.ID
	resp, body, _ := g.post(t, "/v1/responses", `{"model":"m","previous_response_id":"`+id+`","input":"Hi"}`)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "previous_response_not_found") {
		t.Errorf("%s %s", resp.Status, body)
	}
}
