package relay

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

const completionsPath = "/v1/completions"

func completionRequest(stream bool, more string) string {
	return fmt.Sprintf(`{"model":"m","prompt":"Once upon","max_tokens":100,"stream":%t%s}`, stream, more)
}

// completionDialects are the dialects without a text completions endpoint.
var completionDialects = []protocol.Name{anthropicDialect, geminiDialect, responsesDialect}

// completionGist returns the text, finish reason and usage of a completion, or of the
// events of a streamed one.
func completionGist(t testing.TB, events ...string) string {
	t.Helper()
	var text, finish, usage string
	for _, e := range events {
		var c struct {
			ID      string `json:"id"`
			Object  string `json:"object"`
			Created int64  `json:"created"`
			Model   string `json:"model"`
			Choices []struct {
				Text   string `json:"text"`
				Index  int    `json:"index"`
				Finish string `json:"finish_reason"`
			} `json:"choices"`
			Usage *struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
				Total      int `json:"total_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(e), &c); err != nil || c.ID == "" || c.Object != "text_completion" || c.Created == 0 || c.Model != "m" {
			t.Fatalf("no text completion: %v\n%s", err, e)
		}
		for _, choice := range c.Choices {
			text, finish = text+choice.Text, finish+choice.Finish
		}
		if c.Usage != nil {
			usage += fmt.Sprint(" ", c.Usage.Prompt, "+", c.Usage.Completion, "=", c.Usage.Total)
		}
	}
	return text + " " + finish + usage
}

// streamData returns the data of a stream's events, without comments. done reports whether
// the stream ends with [DONE].
func streamData(body string) (events []string, done bool) {
	body = regexp.MustCompile(`(?m)^:.*\n`).ReplaceAllString(body, "")
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data := strings.TrimPrefix(block, "data: ")
		if data == "[DONE]" {
			return events, true
		}
		events = append(events, data)
	}
	return events, false
}

func TestCompletionsOnEveryDialect(t *testing.T) {
	const said, counted = "Héllo 😀 stop", " 100+9=109"
	c := sharedCase(t, "text")
	for _, upstream := range completionDialects {
		for form, f := range map[string]struct {
			stream  bool
			more    string
			change  func(*gateway)
			answer  upstreamtest.Script
			streams bool // the gateway requests a stream from the upstream
			want    string
		}{
			"whole":                {false, "", speaking(upstream), upstreamtest.JSON(200, c.whole(upstream)), false, said + counted},
			"stream":               {true, "", speaking(upstream), upstreamtest.StreamRandom(c.stream(upstream), 1), true, said},
			"stream with usage":    {true, `,"stream_options":{"include_usage":true}`, speaking(upstream), upstreamtest.StreamCut(c.stream(upstream), 7), true, said + counted},
			"whole to stream":      {true, "", speaking(upstream), upstreamtest.JSON(200, c.whole(upstream)), true, said},
			"stream to whole":      {false, "", func(g *gateway) { speaking(upstream)(g); always(g) }, upstreamtest.Stream(c.stream(upstream)), true, said + counted},
			"a list of one prompt": {false, `,"prompt":["Once upon"]`, speaking(upstream), upstreamtest.JSON(200, c.whole(upstream)), false, said + counted},
		} {
			t.Run(fmt.Sprintf("%s on %s", form, upstream), func(t *testing.T) {
				g := newGateway(t, f.change)
				g.up.Answer(f.answer)
				ask := completionRequest(f.stream, f.more)
				if strings.Contains(f.more, "prompt") {
					ask = strings.Replace(ask, `"prompt":"Once upon",`, "", 1)
				}
				resp, body, err := g.post(t, completionsPath, ask)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("%v %s %s", err, resp.Status, body)
				}
				events, done := []string{body}, true
				if f.stream {
					events, done = streamData(body)
				}
				if got := completionGist(t, events...); got != f.want || !done {
					t.Errorf("the client reads %q, want %q\n%s", got, f.want, body)
				}
				if got := resp.Header.Get("Isogloss-Fidelity"); got != `approximated;a=1;d=0;codes="completion.as_chat"` {
					t.Errorf("the fidelity is %s", got)
				}
				wantUpstreamRequest(t, g, upstream, f.streams)
				if sent := string(g.up.Last(t).Body); strings.Count(sent, "Once upon") != 1 || strings.Contains(sent, `"prompt"`) {
					t.Errorf("sent %s", sent)
				}
				g.wantSuccess(t)
				g.wantLine(t, `"endpoint":"completions"`, `"output_tokens":9,`, `"upstream_protocol":"`+string(upstream)+`"`)
			})
		}
	}
}

func TestCompletionReasoningIsLeftOut(t *testing.T) {
	c := sharedCase(t, "reasoning")
	for _, upstream := range completionDialects {
		g := newGateway(t, speaking(upstream))
		g.up.Answer(upstreamtest.JSON(200, c.whole(upstream)))
		resp, whole, _ := g.post(t, completionsPath, completionRequest(false, ""))
		if got := resp.Header.Get("Isogloss-Fidelity"); !strings.HasPrefix(got, "dropped") || !strings.Contains(got, "completion.text_only") {
			t.Errorf("%s: the fidelity is %s", upstream, got)
		}
		g.up.Answer(upstreamtest.Stream(c.stream(upstream)))
		_, stream, _ := g.post(t, completionsPath, completionRequest(true, `,"stream_options":{"include_usage":true}`))
		events, done := streamData(stream)
		if want, got := completionGist(t, whole), completionGist(t, events...); got != want || !done {
			t.Errorf("%s: streamed %q, whole %q", upstream, got, want)
		}
	}
}

// TestTruncatedCompletionStreams checks that a truncated stream ends with an error and
// without [DONE].
func TestTruncatedCompletionStreams(t *testing.T) {
	c := sharedCase(t, "text")
	for _, upstream := range completionDialects {
		for name, end := range ends {
			g := newGateway(t, speaking(upstream))
			before, _, _ := strings.Cut(c.stream(upstream), "llo 😀")
			g.up.Answer(streamEnd(before[:strings.LastIndex(before, "\n\n")+2], end))
			resp, body, err := g.post(t, completionsPath, completionRequest(true, ""))
			events, done := streamData(body)
			if err != nil || resp.StatusCode != http.StatusOK || done || len(events) < 2 {
				t.Fatalf("%s, %s: %v %s\n%s", upstream, name, err, resp.Status, body)
			}
			last := len(events) - 1
			if got := completionGist(t, events[:last]...); got != "Hé " {
				t.Errorf("%s, %s: the client reads %q", upstream, name, got)
			}
			if f := readFault(t, chatDialect, events[last]); f.code != "upstream_truncated" {
				t.Errorf("%s, %s: %+v", upstream, name, f)
			}
			g.wantLine(t, `"outcome":"upstream_error"`)
		}
	}
}

func TestCompletionsThatCannotBecomeChat(t *testing.T) {
	for more, param := range map[string]string{
		`"prompt":["a","b"]`: "prompt", `"prompt":[1,2]`: "prompt", `"prompt":"a","echo":true`: "echo",
		`"prompt":"a","best_of":3`: "best_of", `"prompt":"a","suffix":"z"`: "suffix", `"prompt":"a","logprobs":1`: "logprobs",
	} {
		for _, upstream := range completionDialects {
			g := newGateway(t, speaking(upstream))
			resp, body, _ := g.post(t, completionsPath, `{"model":"m",`+more+`}`, exchange.ModeHeader, "loose")
			if f := readFault(t, chatDialect, body); resp.StatusCode != http.StatusBadRequest || f.code != "completion.unsupported" ||
				!strings.Contains(body, `"param":"`+param+`"`) || len(g.up.Requests()) > 0 {
				t.Errorf("%s on %s: %s %s", more, upstream, resp.Status, body)
			}
		}
	}
	g := newGateway(t, speaking(anthropicDialect))
	resp, body, _ := g.post(t, completionsPath, completionRequest(false, ""), exchange.ModeHeader, "strict")
	if f := readFault(t, chatDialect, body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(f.message, "completion.as_chat") ||
		resp.Header.Get("Isogloss-Fidelity") != `refused;a=1;d=0;codes="completion.as_chat"` {
		t.Errorf("strict: %s %s %s", resp.Status, body, resp.Header.Get("Isogloss-Fidelity"))
	}
	g.up.Answer(upstreamtest.JSON(200, sharedCase(t, "text").whole(anthropicDialect)))
	resp, _, _ = g.post(t, completionsPath, completionRequest(false, `,"top_k":4,"min_tokens":2`))
	if got := resp.Header.Get("Isogloss-Fidelity"); got != `dropped;a=1;d=2;codes="completion.as_chat ext.unknown_field";fields="ext.top_k ext.min_tokens"` {
		t.Errorf("unknown members: %s", got)
	}
	g.up.Answer(upstreamtest.JSON(429, errorBody(anthropicDialect, "rate_limit_error", "busy", "slow down")))
	if resp, body, _ = g.post(t, completionsPath, completionRequest(true, "")); resp.StatusCode != http.StatusTooManyRequests || readFault(t, chatDialect, body).message != "slow down" {
		t.Errorf("an error: %s %s", resp.Status, body)
	}
}

// TestCompletionsPreferNativeTarget checks that a target with a completions endpoint is
// tried before one that only supports chat.
func TestCompletionsPreferNativeTarget(t *testing.T) {
	g := newGateway(t)
	chats := *g.provider
	chats.Protocol = anthropicDialect
	target := func(p *provider.Provider) route.Target {
		return route.Target{Provider: p, Model: "m", Timeouts: p.Timeouts}
	}
	g.state.Routes = route.New([]*route.Route{{Name: "m", Targets: []route.Target{target(&chats), target(g.provider)}}})
	g.relay.Use(g.state)
	const answer = `{"id":"t1", "object":"text_completion","choices":[{"index":0,"text":"x","finish_reason":"stop"}]}`
	g.up.Answer(upstreamtest.JSON(200, answer))
	ask := `{"model":"m", "prompt":[[1,2]],"echo":true}`
	resp, body, _ := g.post(t, completionsPath, ask)
	if sent := g.up.Last(t); body != answer || string(sent.Body) != ask || sent.Path != completionsPath || resp.Header.Get("Isogloss-Fidelity") != "exact" {
		t.Errorf("%s %s, sent %s", resp.Status, body, sent.Body)
	}
}
