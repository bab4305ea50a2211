package relay

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

const (
	chatDialect, responsesDialect, anthropicDialect, geminiDialect = protocol.OpenAIChat, protocol.OpenAIResponses, protocol.Anthropic, protocol.Gemini
)

// textDialects are the dialects whose streams are server-sent events on the wire. TestConverse has the
// cells of the other one.
var textDialects = []protocol.Name{chatDialect, responsesDialect, anthropicDialect, geminiDialect}

// speaking sets the upstream's dialect and serves the model m.
func speaking(dialect protocol.Name) func(*gateway) {
	return func(g *gateway) {
		g.provider.Protocol, g.provider.Auth = dialect, provider.Custom(dialect).Auth
		g.extra = append(g.extra, "m")
	}
}

func codecOf(t testing.TB, name protocol.Name) protocol.Translator {
	t.Helper()
	for _, c := range all.Codecs() {
		if c.Name() == name {
			return c
		}
	}
	t.Fatalf("no codec %s", name)
	return nil
}

// eachCell runs a test for every pair of a client's and an upstream's dialect.
func eachCell(t *testing.T, f func(t *testing.T, client, upstream protocol.Name)) {
	t.Helper()
	for _, client := range textDialects {
		for _, upstream := range textDialects {
			t.Run(fmt.Sprintf("%s on %s", client, upstream), func(t *testing.T) { f(t, client, upstream) })
		}
	}
}

// eachForeignCell runs a test for every pair of different dialects.
func eachForeignCell(t *testing.T, f func(t *testing.T, client, upstream protocol.Name)) {
	t.Helper()
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		if client != upstream {
			f(t, client, upstream)
		}
	})
}

// shared is a case of protocoltest: the same exchange in Chat, Responses, Messages and Gemini.
type shared map[string]string

func sharedCase(t testing.TB, name string) shared {
	t.Helper()
	archive, err := txtar.ParseFile("../../../protocol/protocoltest/testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := shared{}
	for _, f := range archive.Files {
		s[f.Name] = string(f.Data)
	}
	return s
}

// stream returns an upstream's stream, with the blank line that the archive's section
// lacks.
func (s shared) stream(dialect protocol.Name) string {
	return strings.TrimRight(s[string(dialect)+".upstream.sse"], "\n") + "\n\n"
}

func (s shared) whole(dialect protocol.Name) string { return s[string(dialect)+".upstream.json"] }

// ask returns the path and the body of a client's request.
func (s shared) ask(dialect protocol.Name, stream bool) (path, body string) {
	return requestPath(dialect, stream), withStream(s[string(dialect)+".request.json"], stream)
}

func requestPath(dialect protocol.Name, stream bool) string {
	switch {
	case dialect == geminiDialect && stream:
		return "/v1beta/models/m:streamGenerateContent?alt=sse"
	case dialect == geminiDialect:
		return "/v1beta/models/m:generateContent"
	case dialect == anthropicDialect:
		return "/v1/messages"
	case dialect == responsesDialect:
		return "/v1/responses"
	}
	return chatPath
}

// withStream sets the stream member of a request.
func withStream(body string, stream bool) string {
	if stream {
		return body
	}
	body = strings.Replace(body, `"stream_options":{"include_usage":true},`, "", 1)
	return strings.Replace(body, `"stream":true,`, "", 1)
}

// simpleRequest returns a minimal request of a dialect.
func simpleRequest(dialect protocol.Name, stream bool) (path, body string) {
	body = map[protocol.Name]string{
		chatDialect:      `{"model":"m","stream":true,"max_completion_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`,
		responsesDialect: `{"model":"m","stream":true,"max_output_tokens":100,"input":"Hi"}`,
		anthropicDialect: `{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`,
		geminiDialect:    `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":100}}`,
	}[dialect]
	return requestPath(dialect, stream), withStream(body, stream)
}

// gist summarizes a response independently of its dialect.
func gist(r *llm.Response) string {
	var b strings.Builder
	for _, c := range r.Choices {
		for _, block := range c.Blocks {
			switch block := block.(type) {
			case *llm.Text:
				fmt.Fprintf(&b, "text %q\n", block.Text)
			case *llm.ToolCall: // absent arguments equal an empty object
				fmt.Fprintf(&b, "call %s %s %s\n", block.Kind, block.Name, cmp.Or(strings.ReplaceAll(block.Args, " ", ""), "{}"))
			case *llm.Thought:
				fmt.Fprintf(&b, "thought %q\n", block.Text(""))
			default:
				fmt.Fprintf(&b, "%T\n", block)
			}
		}
		fmt.Fprintf(&b, "stop %s\n", c.Stop.Kind)
	}
	if u := r.Usage; u != nil {
		fmt.Fprintf(&b, "usage %d %d %d\n", u.TotalInput(), u.CacheRead, u.TotalOutput())
	}
	return b.String()
}

// readStream decodes a client's stream, checks that it follows the rules of its dialect
// and is complete, and returns its gist.
func readStream(t testing.TB, dialect protocol.Name, body string) string {
	t.Helper()
	end, err := protocoltest.Check(dialect, []byte(body))
	if err != nil || end != protocoltest.Completed {
		t.Errorf("the stream is %s: %v\n%s", end, err, body)
	}
	events, err := protocoltest.ReadStream(codecOf(t, dialect), strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	resp, err := protocoltest.Collect(events)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return gist(resp)
}

func readWhole(t testing.TB, dialect protocol.Name, body string) string {
	t.Helper()
	resp, err := codecOf(t, dialect).DecodeResponse([]byte(body))
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return gist(resp)
}

// TestTranslatedResponses checks every pair of dialects with streaming and non-streaming
// clients and upstreams.
func TestTranslatedResponses(t *testing.T) {
	for _, name := range []string{"text", "tools"} {
		c := sharedCase(t, name)
		eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
			want := readWhole(t, upstream, c.whole(upstream))
			for form, f := range map[string]struct {
				stream  bool
				change  func(*gateway)
				answer  upstreamtest.Script
				streams bool // the gateway requests a stream from the upstream
			}{
				"stream to stream": {true, speaking(upstream), upstreamtest.StreamRandom(c.stream(upstream), 1), true},
				"whole to whole":   {false, speaking(upstream), upstreamtest.JSON(200, c.whole(upstream)), false},
				"stream to whole": {false, func(g *gateway) { speaking(upstream)(g); always(g) },
					upstreamtest.StreamCut(c.stream(upstream), 7), true},
				"unasked stream to whole": {false, speaking(upstream), upstreamtest.Stream(c.stream(upstream)), false},
				"whole to stream":         {true, speaking(upstream), upstreamtest.JSON(200, c.whole(upstream)), true},
			} {
				t.Run(name+", "+form, func(t *testing.T) {
					g := newGateway(t, f.change)
					g.up.Answer(f.answer)
					path, ask := c.ask(client, f.stream)
					resp, body, err := g.post(t, path, ask)
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Fatalf("%v %s %s", err, resp.Status, body)
					}
					read, media := readWhole, "application/json"
					if f.stream {
						read, media = readStream, "text/event-stream"
					}
					if got := read(t, client, body); got != want {
						t.Errorf("the client reads\n%swant\n%s%s", got, want, body)
					}
					if got := resp.Header.Get("Content-Type"); got != media {
						t.Errorf("it came as %s", got)
					}
					wantUpstreamRequest(t, g, upstream, f.streams)
					g.wantSuccess(t)
					g.wantLine(t, `"input_tokens":`, `"output_tokens":9,`, `"finish":"`, `"upstream_protocol":"`+string(upstream)+`"`)
					g.wantMetrics(t, `isogloss_tokens_total{kind="output",model="m",provider="up"} 9`)
				})
			}
		})
	}
}

// wantUpstreamRequest checks that the upstream request has its own dialect's path and the
// gateway's credential.
func wantUpstreamRequest(t testing.TB, g *gateway, dialect protocol.Name, stream bool) {
	t.Helper()
	sent := g.up.Last(t)
	if want := requestPath(dialect, stream); sent.Path != want {
		t.Errorf("the upstream was asked at %s, want %s", sent.Path, want)
	}
	if dialect != geminiDialect && bytes.Contains(sent.Body, []byte(`"stream":true`)) != stream {
		t.Errorf("stream should be %t: %s", stream, sent.Body)
	}
	want := http.Header{}
	g.provider.Authorize(want)
	for name := range want {
		if sent.Header.Get(name) != want.Get(name) {
			t.Errorf("%s is %q", name, sent.Header.Get(name))
		}
	}
	if dialect == anthropicDialect && sent.Header.Get("Anthropic-Version") == "" {
		t.Error("no version was sent")
	}
}

// TestCallIDReturnsToItsServer checks that a server gets the id of a call as it made it, although it is longer than those
// of OpenAI.
func TestCallIDReturnsToItsServer(t *testing.T) {
	const id = "chatcmpl-tool-0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(200, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`))
	_, body, err := g.post(t, messagesPath, `{"model":"real-chat","max_tokens":9,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"`+id+`","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+id+`","content":"1"}]}]}`)
	if sent := string(g.up.Last(t).Body); err != nil || strings.Count(sent, `"`+id+`"`) != 2 {
		t.Errorf("%v: %s: %s", err, sent, body)
	}
}
