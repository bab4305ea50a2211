package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// weather returns a stream with a tool call, with usage at up to three positions.
func weather(onFirst, onFinish, after string) string {
	return `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}]` + onFirst + "}\n\n" +
		`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"usage\":1}"}}]},"finish_reason":null}]` + onFirst + "}\n\n" +
		`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]` + onFinish + "}\n\n" +
		after + "data: [DONE]\n\n"
}

const (
	nullUsage  = `,"usage":null`
	earlyUsage = `,"usage":{"prompt_tokens":140,"completion_tokens":1,"total_tokens":141}`
	lastUsage  = `,"usage":{"prompt_tokens":140,"completion_tokens":24,"total_tokens":164}`
	countChunk = `data: {"id":"c1","model":"m","choices":[]` + lastUsage + "}\n\n"
)

func TestUsageAndFinishAreRead(t *testing.T) {
	counted := []string{`"finish":"tool_calls","input_tokens":140,"cache_read_tokens":0,"cache_write_tokens":0,"output_tokens":24,"reasoning_tokens":0`}
	for name, c := range map[string]struct {
		stream string
		line   []string
		output string
	}{
		"on the finish chunk":   {weather("", lastUsage, ""), counted, "24"},
		"in a chunk of its own": {weather(nullUsage, nullUsage, countChunk), counted, "24"},
		"in every chunk":        {weather(earlyUsage, lastUsage, countChunk), counted, "24"},
		"without choices":       {weather("", "", `data: {"id":"c1"`+lastUsage+"}\n\n"), counted, "24"},
		"absent":                {weather("", "", ""), []string{`"finish":"tool_calls","first_byte_ms"`}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			g.up.Answer(upstreamtest.Unasked(upstreamtest.StreamRandom(c.stream, 7)))
			if _, got, err := g.post(t, chatPath, streamRequest); err != nil || got != c.stream {
				t.Fatalf("%v, the client got\n%s", err, got)
			}
			g.wantLine(t, append(c.line, `"outcome":"ok"`, `"stream":true,"upstream_stream":true`)...)
			g.wantMetrics(t, `isogloss_tokens_total{kind="output",model="real-chat",provider="up"} `+c.output)
		})
	}
}

func TestUsageOfNonStreamingResponseIsRead(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, `{"choices":[{"index":0,"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":"7","prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":5.0}}}`))
	if resp, got, err := g.post(t, chatPath, plainRequest); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(err, got)
	}
	g.wantLine(t, `"finish":"length","input_tokens":6,"cache_read_tokens":4,"cache_write_tokens":0,"output_tokens":2,"reasoning_tokens":5`)
	g.wantMetrics(t,
		`isogloss_tokens_total{kind="input",model="real-chat",provider="up"} 6`,
		`isogloss_tokens_total{kind="cache_read",model="real-chat",provider="up"} 4`,
		`isogloss_tokens_total{kind="output",model="real-chat",provider="up"} 2`,
		`isogloss_tokens_total{kind="reasoning",model="real-chat",provider="up"} 5`)
}

func includeUsage(g *gateway) { g.provider.IncludeUsage = true }

func TestUsageIsRequested(t *testing.T) {
	g := newGateway(t, includeUsage)
	g.up.Answer(upstreamtest.Stream(weather(nullUsage, nullUsage, countChunk)))
	for _, c := range []struct{ name, body, want string }{
		{"absent", `{"stream":true,"model":"real-chat" }`, `{"stream":true,"model":"real-chat","stream_options":{"include_usage":true} }`},
		{"null", `{"stream_options" : null ,"stream":true,"model":"real-chat"}`, `{"stream_options" : {"include_usage":true} ,"stream":true,"model":"real-chat"}`},
		{"empty", `{"stream":true,"stream_options":{ },"model":"real-chat"}`, `{"stream":true,"stream_options":{"include_usage":true },"model":"real-chat"}`},
		{"others", `{"stream":true,"model":"real-chat","stream_options":{ "x" : 1.10 , "y":[] }}`, `{"stream":true,"model":"real-chat","stream_options":{ "x" : 1.10 , "y":[],"include_usage":true }}`},
		{"false", `{"stream":true,"model":"real-chat","stream_options":{"include_usage": false,"x":1}}`, `{"stream":true,"model":"real-chat","stream_options":{"include_usage": true,"x":1}}`},
		{"null inside", `{"stream":true,"model":"real-chat","stream_options":{"include_usage":null}}`, `{"stream":true,"model":"real-chat","stream_options":{"include_usage":true}}`},
		{"with an alias", `{"stream":true,"model":"alias-chat"}`, `{"stream":true,"model":"real-chat","stream_options":{"include_usage":true}}`},
	} {
		_, got, err := g.post(t, chatPath, c.body)
		if err != nil || got != weather(nullUsage, nullUsage, "") {
			t.Errorf("%s: %v, the client got\n%s", c.name, err, got)
		}
		if sent := string(g.up.Last(t).Body); sent != c.want {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", c.name, sent, c.want)
		}
	}
	g.wantLine(t, `"input_tokens":140`, `"output_tokens":24`)
}

func TestUsageIsNotRequestedTwice(t *testing.T) {
	stream := weather(nullUsage, nullUsage, countChunk)
	for name, c := range map[string]struct {
		ask     string
		changes []func(*gateway)
	}{
		"the client asked":              {`{"model":"real-chat","stream":true,"stream_options":{"include_usage":true}}`, []func(*gateway){includeUsage}},
		"the client asked, not we":      {`{"model":"real-chat","stream":true,"stream_options":{"include_usage":true}}`, nil},
		"nobody asked and it came":      {streamRequest, nil},
		"nobody asked, options are odd": {`{"model":"real-chat","stream":true,"stream_options":{"x":null}}`, nil},
	} {
		g := newGateway(t, c.changes...)
		g.up.Answer(upstreamtest.Unasked(upstreamtest.StreamRandom(stream, 3)))
		if _, got, err := g.post(t, chatPath, c.ask); err != nil || got != stream {
			t.Errorf("%s: %v, the client got\n%s", name, err, got)
		}
		if sent := string(g.up.Last(t).Body); sent != c.ask {
			t.Errorf("%s: the upstream got\n%s", name, sent)
		}
	}
	g := newGateway(t, includeUsage)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	if _, got, _ := g.post(t, chatPath, plainRequest); got != plainResponse || string(g.up.Last(t).Body) != plainRequest {
		t.Error("a request that is not streamed was edited")
	}
}

// TestUsageChunkIsRemoved checks that the usage chunk that only the gateway requested is
// removed, at any position and however the stream is split into reads.
func TestUsageChunkIsRemoved(t *testing.T) {
	for name, chunk := range map[string]string{
		"plain":         countChunk,
		"spaces":        `data: { "choices" : [ ] ` + lastUsage + " }\n\n",
		"null choices":  `data: {"choices":null` + lastUsage + "}\n\n",
		"no choices":    `data: {"id":"c1"` + lastUsage + "}\n\n",
		"named":         "event: x\nid: 1\n" + countChunk,
		"several lines": "data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":140,\ndata: \"completion_tokens\":24}}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, includeUsage)
			want := ": hi\n\n" + weather(nullUsage, nullUsage, ": bye\n\n")
			stream := strings.Replace(want, ": bye", chunk+": bye", 1)
			for cut, script := range cuts("text/event-stream", stream) {
				g.up.Answer(script)
				if _, got, err := g.post(t, chatPath, streamRequest); err != nil || got != want {
					t.Fatalf("%s: %v, the client got\n%s\nwant\n%s", cut, err, got, want)
				}
			}
			g.wantLine(t, `"input_tokens":140`, `"output_tokens":24`)
		})
	}
}

func TestUsageBesideContentIsNotRemoved(t *testing.T) {
	for name, stream := range map[string]string{
		"on the finish chunk": weather("", lastUsage, ""),
		"in every chunk":      weather(earlyUsage, lastUsage, ""),
		"filter results":      `data: {"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n" + weather("", lastUsage, ""),
	} {
		g := newGateway(t, includeUsage)
		g.up.Answer(upstreamtest.StreamRandom(stream, 9))
		if _, got, err := g.post(t, chatPath, streamRequest); err != nil || got != stream {
			t.Errorf("%s: %v, the client got\n%s", name, err, got)
		}
	}
}

func BenchmarkRelayWhole(b *testing.B) {
	g := newGateway(b)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	ask := `{"model":"alias-chat","messages":[{"role":"user","content":"` + strings.Repeat("word ", 400) + `"}]}`
	b.SetBytes(int64(len(ask)))
	b.ReportAllocs()
	for b.Loop() {
		if _, got, err := g.post(b, chatPath, ask); err != nil || got != plainResponse {
			b.Fatal(err, got)
		}
	}
}

// BenchmarkRelayStream200 relays a stream of 200 events per operation.
func BenchmarkRelayStream200(b *testing.B) {
	g := newGateway(b)
	event := `data: {"id":"c1","object":"chat.completion.chunk","created":1770000000,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	stream := strings.Repeat(event, 198) + lastChunk + "\n\ndata: [DONE]\n\n"
	g.up.Answer(upstreamtest.StreamCut(stream, len(event)))
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if _, got, err := g.post(b, chatPath, streamRequest); err != nil || got != stream {
			b.Fatal(err, got)
		}
	}
}
