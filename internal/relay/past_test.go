package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func keepingPast(g *gateway) { g.state.Limits.Conversations = 64 << 20 }

// toldResponse is what a client of the Responses API goes by.
type toldResponse struct {
	ID       string            `json:"id"`
	Previous string            `json:"previous_response_id"`
	Output   []json.RawMessage `json:"output"`
}

// respond asks for a response, streamed or not.
func (g *gateway) respond(t *testing.T, stream bool, ask map[string]any, headers ...string) toldResponse {
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
		return parse[toldResponse](t, text)
	}
	_, last, ok := strings.Cut(text, "event: response.completed\ndata: ")
	if !ok {
		t.Fatalf("no last event: %s", text)
	}
	return parse[struct{ Response toldResponse }](t, last).Response
}

func parse[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

type item = map[string]any

func said(text string) item { return item{"role": "user", "content": text} }

// references names items as the AI SDK does.
func references(t *testing.T, items []json.RawMessage) (named []any) {
	t.Helper()
	for _, raw := range items {
		named = append(named, item{"type": "item_reference", "id": parse[struct{ ID string }](t, string(raw)).ID})
	}
	return named
}

// again is a list with the items of an answer in it.
func again(before []any, items []json.RawMessage, after ...any) []any {
	for _, raw := range items {
		before = append(before, raw)
	}
	return append(before, after...)
}

// answerID is an answer's own id in the shared cases.
var answerID = regexp.MustCompile(`"(c1|msg_1|g1)"`)

// answering gives an answer of the shared cases an id of its own, as vendors do.
func answering(g *gateway, s shared, upstream protocol.Name, stream bool) {
	id := fmt.Sprintf(`"${1}%d"`, len(g.up.Requests()))
	if stream {
		g.up.Answer(upstreamtest.Stream(answerID.ReplaceAllString(s.stream(upstream), id)))
		return
	}
	g.up.Answer(upstreamtest.JSON(200, answerID.ReplaceAllString(s.whole(upstream), id)))
}

// RSP-17, RSP-18: whoever names what was said before gets the same upstream request, to
// the byte, as one who says it all again. Three turns: the second names the first, the
// third the second.
func TestThePastCanBeNamed(t *testing.T) {
	tool := []any{item{"type": "function", "name": "get_weather", "parameters": item{"type": "object", "properties": item{}}, "strict": false}}
	for _, upstream := range []protocol.Name{chatDialect, anthropicDialect, geminiDialect} {
		for _, stream := range []bool{false, true} {
			for _, name := range []string{"tools", "reasoning"} {
				t.Run(fmt.Sprintf("%s on %s, stream %v", name, upstream, stream), func(t *testing.T) {
					first := sharedCase(t, name)
					g := newGateway(t, speaking(upstream), keepingPast)
					answering(g, first, upstream, stream)
					one := g.respond(t, stream, item{"input": "Weather?", "tools": tool, "instructions": "Be brief."})
					var results []any
					for _, raw := range one.Output {
						if call := parse[struct{ Type, CallID string }](t, strings.Replace(string(raw), `"call_id"`, `"CallID"`, 1)); call.Type == "function_call" {
							results = append(results, item{"type": "function_call_output", "call_id": call.CallID, "output": "4 °C"})
						}
					}
					results = append(results, said("And tomorrow?"))
					ask := func(input []any, previous string) toldResponse {
						t.Helper()
						answering(g, sharedCase(t, "text"), upstream, stream)
						r := item{"input": input, "tools": tool, "instructions": "Be brief."}
						if previous != "" {
							r["previous_response_id"] = previous
						}
						return g.respond(t, stream, r)
					}
					last := func() string { return string(g.up.Last(t).Body) }

					opening := []any{said("Weather?")}
					ask(again(opening, one.Output, results...), "")
					want := last()
					two := ask(results, one.ID)
					if last() != want || two.Previous != one.ID {
						t.Errorf("with previous_response_id %s\nwant %s", last(), want)
					}
					ask(slices.Concat(opening, references(t, one.Output), results), "")
					if last() != want {
						t.Errorf("with item_reference %s\nwant %s", last(), want)
					}
					whole := again(again(opening, one.Output, results...), two.Output, said("Thanks."))
					ask(whole, "")
					want = last()
					ask([]any{said("Thanks.")}, two.ID)
					if last() != want {
						t.Errorf("two back %s\nwant %s", last(), want)
					}
				})
			}
		}
	}
}

// TestThePastIsRefused names what is not there.
func TestThePastIsRefused(t *testing.T) {
	const byID, byItem = `{"model":"m","previous_response_id":%q,"input":"Hi"}`, `{"model":"m","input":[{"type":"item_reference","id":%q},{"role":"user","content":"Hi"}]}`
	keys := func(g *gateway) {
		g.state.Keys = access.NewKeys([]access.Key{{Secret: "sk-alice"}, {Secret: "sk-bob"}})
	}
	clock := time.Now()
	for name, c := range map[string]struct {
		change  func(g *gateway)
		between func(g *gateway)
		ask     item
		key     string
	}{
		"another's":          {key: "sk-bob"},
		"of store false":     {ask: item{"store": false}},
		"too old":            {between: func(g *gateway) { g.relay.past.now = func() time.Time { return clock.Add(pastLife + time.Minute) } }},
		"of another process": {between: func(g *gateway) { g.relay.past = newPastStore() }},
		"pushed out": {change: func(g *gateway) { g.state.Limits.Conversations = 4 << 10 }, between: func(g *gateway) {
			for i := range 10 {
				g.respond(t, false, item{"input": strings.Repeat("x", 1<<10), "user": fmt.Sprint(i)}, "Authorization", "Bearer sk-bob")
			}
		}},
		"too large": {ask: item{"input": strings.Repeat("x", pastSize)}},
		"with two meanings": {between: func(g *gateway) {
			g.up.Answer(upstreamtest.JSON(200, strings.Replace(chatAnswer, `"Hi"`, `"Ho"`, 1)))
			g.respond(t, false, item{"input": "another"}, "Authorization", "Bearer sk-alice")
		}},
		"off": {change: func(g *gateway) { g.state.Limits.Conversations = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []func(*gateway){speaking(chatDialect), keepingPast, keys}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			g := newGateway(t, changes...)
			g.up.Answer(upstreamtest.JSON(200, chatAnswer))
			first := item{"input": "Hi"}
			for k, v := range c.ask {
				first[k] = v
			}
			one := g.respond(t, false, first, "Authorization", "Bearer sk-alice")
			if c.between != nil {
				c.between(g)
			}
			before := len(g.up.Requests())
			key := c.key
			if key == "" {
				key = "sk-alice"
			}
			codes := map[string]string{fmt.Sprintf(byID, one.ID): "previous_response_not_found"}
			if name != "too large" { // the items of the answer are kept, if not what was asked
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

// TestThePastForTheVendor: what was told here is written out for OpenAI too, which does
// not know it, and what OpenAI has told stays a name, to the byte.
func TestThePastForTheVendor(t *testing.T) {
	g := newGateway(t, speaking(chatDialect), keepingPast)
	g.up.Answer(upstreamtest.JSON(200, chatAnswer))
	one := g.respond(t, false, item{"input": "Weather?"})

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

// TestThePastStaysWhileItIsUsed: every turn is a use of all before it.
func TestThePastStaysWhileItIsUsed(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect), keepingPast)
	clock := time.Now()
	g.relay.past.now = func() time.Time { return clock }
	previous := ""
	for i := range 6 {
		g.up.Answer(upstreamtest.JSON(200, strings.Replace(messagesAnswer, "msg_1", fmt.Sprintf("msg_%d", i), 1)))
		ask := item{"input": fmt.Sprintf("turn %d", i)}
		if previous != "" {
			ask["previous_response_id"] = previous
		}
		previous = g.respond(t, false, ask).ID
		clock = clock.Add(pastLife - time.Minute)
	}
	if got := string(g.up.Last(t).Body); strings.Count(got, `"role":"user"`) != 6 || strings.Count(got, `"Hi"`) != 5 {
		t.Errorf("%s", got)
	}
}

// TestThePastOfAFailedAnswer: what broke off was not told.
func TestThePastOfAFailedAnswer(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect), keepingPast)
	cut := sharedCase(t, "text").stream(anthropicDialect)
	begun, _, _ := strings.Cut(cut, "event: content_block_stop")
	g.up.Answer(upstreamtest.Stream(begun))
	_, body, _ := g.post(t, "/v1/responses", `{"model":"m","stream":true,"max_output_tokens":9,"input":"Hi"}`)
	_, last, ok := strings.Cut(body, "event: response.failed\ndata: ")
	if !ok {
		t.Fatalf("it did not fail: %s", body)
	}
	id := parse[struct{ Response toldResponse }](t, last).Response.ID
	resp, body, _ := g.post(t, "/v1/responses", `{"model":"m","previous_response_id":"`+id+`","input":"Hi"}`)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "previous_response_not_found") {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// TestVaultIsBounded fills it in every way.
func TestVaultIsBounded(t *testing.T) {
	v := newVault(vaultBounds{life: time.Hour, many: 100, size: 1 << 10})
	key := func(i int) vaultKey { return pastKey("a", pastItem, fmt.Sprint(i)) }
	if v.put(key(0), make([]byte, 1<<10+1), 1<<30) || !v.empty() {
		t.Error("one that is too large is kept")
	}
	for i := range 300 {
		v.put(key(i), []byte("something"), 1<<30)
		v.get(key(0)) // it is used, and stays
	}
	if _, ok := v.get(key(0)); len(v.entries) != 100 || v.order.Len() != 100 || !ok {
		t.Errorf("%d entries; the one that is used is there: %v", len(v.entries), ok)
	}
	for i := range 300 {
		v.put(key(1000+i), []byte(strings.Repeat("y", 1<<10)), 16<<10)
	}
	total := int64(0)
	for at := v.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*vaultEntry)
		total += e.room()
		if strings.Contains(string(e.sealed), "yyyy") {
			t.Fatal("it is kept in the clear")
		}
	}
	if total != v.room || total > 16<<10 || total < 8<<10 {
		t.Errorf("%d bytes are kept, %d are counted", total, v.room)
	}
}
