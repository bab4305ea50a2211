package relay

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// withParams sets the parameters of every model.
func withParams(s *params.Set) func(*gateway) {
	return func(g *gateway) { g.params = s }
}

// at returns the value at a path of a JSON object, as JSON.
func at(t *testing.T, body []byte, path string) string {
	t.Helper()
	value := json.RawMessage(body)
	for name := range strings.SplitSeq(path, ".") {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(value, &members); err != nil {
			return ""
		}
		value = members[name]
	}
	return string(value)
}

// places are where the upstreams of each dialect read the parameters.
var places = map[protocol.Name]struct{ temperature, maxTokens, effort, high string }{
	chatDialect:      {"temperature", "max_completion_tokens", "reasoning_effort", `"high"`},
	responsesDialect: {"temperature", "max_output_tokens", "reasoning.effort", `"high"`},
	anthropicDialect: {"temperature", "max_tokens", "thinking.budget_tokens", "16384"},
	geminiDialect:    {"generationConfig.temperature", "generationConfig.maxOutputTokens", "generationConfig.thinkingConfig.thinkingLevel", `"HIGH"`},
}

// TestParamsOnAllPairs checks the parameters of a model for every client and upstream.
func TestParamsOnAllPairs(t *testing.T) {
	body := []llm.Member{{Name: "vendor_mode", Value: `{"a":[1.0]}`}}
	for client := range places {
		for up, at4 := range places {
			for _, stream := range []bool{false, true} {
				t.Run(string(client)+" "+string(up), func(t *testing.T) {
					sets := []*params.Set{
						{Defaults: params.Values{Effort: "high", MaxTokens: 40000, Body: body}},
						{Override: params.Values{Effort: "high", MaxTokens: 40000, Body: body}},
						{Defaults: params.Values{Temperature: "0.25", Body: body}},
					}
					for i, set := range sets {
						g := newGateway(t, speaking(up), withParams(set))
						g.up.Answer(upstreamtest.JSON(500, `{"error":{"message":"no"}}`))
						path, text := g.requestIn(t, g.relay.dialects.ByName[client], stream)
						resp, _, _ := g.post(t, path, text)
						sent := g.up.Last(t).Body
						limit, effort, temperature := "40000", at4.high, ""
						switch i {
						case 0: // the client sets the limit
							limit = "50"
							if up == anthropicDialect {
								effort = "" // no room for thinking
							}
						case 2:
							limit, effort, temperature = "50", "", "0.25"
						}
						for place, want := range map[string]string{at4.maxTokens: limit, at4.effort: effort, at4.temperature: temperature, "vendor_mode": `{"a":[1.0]}`} {
							if got := at(t, sent, place); got != want {
								t.Errorf("set %d: %s is %q, want %q: %s", i, place, got, want, sent)
							}
						}
						if overridden := strings.Contains(resp.Header.Get("Isogloss-Fidelity"), "model.override"); overridden != (i == 1) {
							t.Errorf("set %d: %s", i, resp.Header.Get("Isogloss-Fidelity"))
						}
					}
				})
			}
		}
	}
}

// TestParamsKeepOtherBytes checks that the verbatim lane changes nothing but the parameters.
func TestParamsKeepOtherBytes(t *testing.T) {
	g := newGateway(t, speaking(chatDialect), withParams(&params.Set{Defaults: params.Values{Temperature: "0.5", MaxTokens: 9}}))
	g.up.Answer(upstreamtest.JSON(200, chatResponse))
	const before, after = `{ "messages" : [ {"role":"user","content":"\u00e9 é" , "x": 1.50e2} ],"unknown":{"b":1,"a":[]},  "model":"m","top_p":1.0`, "\n}"
	resp, _, _ := g.post(t, chatPath, before+after)
	if got := string(g.up.Last(t).Body); got != before+`,"max_completion_tokens":9,"temperature":0.5`+after || resp.Header.Get("Isogloss-Fidelity") != "exact" {
		t.Errorf("%s: %s", resp.Header.Get("Isogloss-Fidelity"), got)
	}
}

// TestParamsInStrictMode checks that a strict request is refused if the configuration
// replaces its value, and not because of values that it does not have.
func TestParamsInStrictMode(t *testing.T) {
	for _, path := range []string{chatPath, messagesPath} {
		for _, c := range []struct {
			set    *params.Set
			status int
		}{
			{&params.Set{Override: params.Values{Temperature: "0.5"}}, http.StatusBadRequest},
			{&params.Set{Override: params.Values{Body: []llm.Member{{Name: "temperature", Value: "0.5"}}}}, http.StatusBadRequest},
			{&params.Set{Override: params.Values{Temperature: "1"}}, http.StatusOK},
			{&params.Set{Override: params.Values{TopP: "0.5"}}, http.StatusOK},
			{&params.Set{Defaults: params.Values{Temperature: "0.5", Effort: "max"}}, http.StatusOK},
		} {
			g := newGateway(t, speaking(chatDialect), withParams(c.set))
			g.up.Answer(upstreamtest.JSON(200, chatResponse))
			resp, body, _ := g.post(t, path, `{"model":"m","max_tokens":9,"temperature":1.0,"messages":[{"role":"user","content":"Hi"}]}`, exchange.ModeHeader, "strict")
			if resp.StatusCode != c.status || c.status != http.StatusOK && !strings.Contains(body, "model.override") {
				t.Errorf("%s %+v: %s %s", path, c.set, resp.Status, body)
			}
		}
	}
}

// TestParamsOfTextCompletions checks the parameters of a text completion, which has no
// reasoning.
func TestParamsOfTextCompletions(t *testing.T) {
	g := newGateway(t, speaking(chatDialect), withParams(&params.Set{Defaults: params.Values{Effort: "high", TopP: "0.5"}, Override: params.Values{MaxTokens: 5}}))
	g.up.Answer(upstreamtest.JSON(200, `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"Hi","finish_reason":"stop"}]}`))
	resp, body, _ := g.post(t, "/v1/completions", `{"model":"m","prompt":"Hi","max_tokens":7}`)
	if got := string(g.up.Last(t).Body); resp.StatusCode != http.StatusOK || got != `{"model":"m","prompt":"Hi","max_tokens":5,"top_p":0.5}` {
		t.Errorf("%s %s: %s", resp.Status, body, got)
	}
	if got := resp.Header.Get("Isogloss-Fidelity"); got != `approximated;a=1;d=0;codes="model.override"` {
		t.Error(got)
	}
}

// TestParamsInTheReservation checks that the limit that is sent is the one that is reserved.
func TestParamsInTheReservation(t *testing.T) {
	for body, c := range map[string]struct {
		set    params.Set
		tokens int64
	}{
		`{"model":"m","messages":[]}`:                {params.Set{Defaults: params.Values{MaxTokens: 11}}, 11},
		`{"model":"m","max_tokens":7,"messages":[]}`: {params.Set{Defaults: params.Values{MaxTokens: 11}}, 7},
		`{"model":"m","max_tokens":8,"messages":[]}`: {params.Set{Override: params.Values{MaxTokens: 3}}, 3},
	} {
		books := newLedger(t, quota.Limit{Budget: 10 * usage.Dollar})
		g := newGateway(t, books.use, speaking(chatDialect), withParams(&c.set))
		reserved := make(chan bool)
		g.up.Answer(func(conn *upstreamtest.Conn) {
			reserved <- true
			<-reserved
			conn.Whole(500, "application/json", busy)
		})
		answered := make(chan bool)
		go func() {
			defer close(answered)
			resp := g.open(t, chatPath, body)
			_ = resp.Body.Close()
		}()
		<-reserved
		books.wantSpent(t, costOf(promptOf(body), c.tokens))
		reserved <- true
		<-answered
	}
}

// TestParamsAreExplained checks that explain shows the parameters and what they change,
// without the values of members.
func TestParamsAreExplained(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect), withParams(&params.Set{Override: params.Values{Temperature: "0.5", Body: []llm.Member{{Name: "a", Value: `"secret"`}}}}))
	e, err := g.relay.Explain(chatDialect, "m", []byte(`{"model":"m","temperature":1,"messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(e.Params); got != `{"defaults":{},"override":{"temperature":0.5,"body":["a"]}}` || !strings.Contains(e.Targets[0].Fidelity, "model.override") {
		t.Errorf("%s, %s", got, e.Targets[0].Fidelity)
	}
}
