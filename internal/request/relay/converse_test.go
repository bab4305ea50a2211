package relay

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/converse"
)

const converseDialect = protocol.Converse

// conversePost sends a request and returns the response, with frames as server-sent events.
func (g *gateway) conversePost(t *testing.T, path, body string) (*http.Response, string) {
	t.Helper()
	resp, got, err := g.post(t, path, body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") == eventstream.MediaType {
		frames := converse.Dialect().Frames
		text, err := io.ReadAll(eventstream.NewReader(io.NopCloser(strings.NewReader(got)), frames))
		if err != nil {
			t.Fatalf("%v: %q", err, got)
		}
		got = string(text)
	}
	return resp, got
}

// askConverse returns the request of a shared case.
func askConverse(c shared, client protocol.Name, stream bool) (path, body string) {
	if client != converseDialect {
		return c.ask(client, stream)
	}
	if stream {
		return "/model/m/converse-stream", c["converse.request.json"]
	}
	return "/model/m/converse", c["converse.request.json"]
}

// TestConverse checks every pair of dialects that includes Converse, streaming or not. The
// upstream rejects requests that the service model does not describe and sends frames.
func TestConverse(t *testing.T) {
	names := append([]protocol.Name{converseDialect}, textDialects...)
	for _, name := range []string{"text", "tools", "reasoning", "media", "structured", "length", "system_in_the_middle"} {
		c := sharedCase(t, name)
		for _, client := range names {
			for _, up := range names {
				if client != converseDialect && up != converseDialect || c[string(client)+".request.json"] == "" || c[string(up)+".upstream.json"] == "" && c[string(up)+".upstream.sse"] == "" {
					continue
				}
				for _, stream := range []bool{false, true} {
					if !stream && c.whole(up) == "" || stream && c[string(up)+".upstream.sse"] == "" {
						continue
					}
					t.Run(fmt.Sprintf("%s: %s on %s, streaming %t", name, client, up, stream), func(t *testing.T) { converseCell(t, c, client, up, stream) })
				}
			}
		}
	}
}

func converseCell(t *testing.T, c shared, client, up protocol.Name, stream bool) {
	g := newGateway(t, speaking(up))
	switch {
	case up == converseDialect:
		g.up.Answer(upstreamtest.Converse(c.whole(up), c.stream(up), 7))
	case stream:
		g.up.Answer(upstreamtest.StreamRandom(c.stream(up), 1))
	default:
		g.up.Answer(upstreamtest.JSON(200, c.whole(up)))
	}
	path, ask := askConverse(c, client, stream)
	resp, body := g.conversePost(t, path, ask)
	if resp.StatusCode != http.StatusOK {
		if c["losses"] != "" && strings.Contains(c["losses"], fmt.Sprintf("%s to %s: refused", client, up)) {
			return
		}
		t.Fatalf("%s %s", resp.Status, body)
	}
	read, answer := readWhole, c.whole(up)
	if stream {
		read, answer = readStream, c.stream(up)
		media := "text/event-stream"
		if client == converseDialect {
			media = eventstream.MediaType
		}
		if got := resp.Header.Get("Content-Type"); got != media {
			t.Errorf("a stream of the type %q", got)
		}
	}
	want := read(t, up, answer)
	if got := read(t, client, body); got != want {
		t.Errorf("%s\nwant\n%s\n%s", got, want, body)
	}
}

// TestConverseErrors checks that exceptions reach every client in its dialect, before and
// within a stream, without the operator's resources.
func TestConverseErrors(t *testing.T) {
	const denied = `{"message":"User: arn:aws:iam::123456789012:user/jane is not authorized on resource arn:aws:bedrock:us-east-1:123456789012:inference-profile/x"}`
	for _, client := range append([]protocol.Name{converseDialect}, textDialects...) {
		for _, c := range []struct {
			status int
			typ    string
			body   string
			want   string
		}{
			{403, "AccessDeniedException", denied, "is not authorized on resource …"},
			{400, "ValidationException", `{"message":"Input is too long."}`, "Input is too long."},
			{429, "ThrottlingException", `{"message":"Too many tokens"}`, "Too many tokens"},
			{503, "ServiceUnavailableException", `{"message":"later"}`, "later"},
		} {
			for _, stream := range []bool{false, true} {
				g := newGateway(t, speaking(converseDialect))
				g.up.Answer(upstreamtest.JSON(c.status, c.body, "x-amzn-ErrorType", c.typ))
				path, ask := askConverse(sharedCase(t, "text"), client, stream)
				resp, body := g.conversePost(t, path, ask)
				if got := resp.Header.Get("X-Amzn-Errortype"); client == converseDialect && got != c.typ {
					t.Errorf("the exception is %q, want %s", got, c.typ)
				}
				if resp.StatusCode < 400 || !strings.Contains(body, c.want) || strings.Contains(body, "123456789012") || strings.Contains(body, "arn:") {
					t.Errorf("%s, %s, streaming %t: %s %s", client, c.typ, stream, resp.Status, body)
				}
			}
		}
	}
}

// TestConverseBrokenStreams checks that a stream that fails, is cut within a frame or has a
// broken frame ends with an error in the client's dialect.
func TestConverseBrokenStreams(t *testing.T) {
	c := sharedCase(t, "text")
	whole := upstreamtest.Frames(c.stream(converseDialect))
	half := whole[:len(upstreamtest.Frames(strings.Join(strings.SplitAfter(c.stream(converseDialect), "\n\n")[:2], "")))]
	damaged := []byte(whole)
	damaged[len(half)+20] ^= 1
	exception := half + upstreamtest.Frames("data: {\"throttlingException\":{\"message\":\"slow down\"}}\n\n")
	for _, client := range append([]protocol.Name{converseDialect}, textDialects...) {
		for name, frames := range map[string]string{"an exception": exception, "cut between frames": half, "cut within a frame": whole[:len(half)+9], "a damaged frame": string(damaged), "no frames": half + strings.Repeat("x", 40)} {
			g := newGateway(t, speaking(converseDialect))
			g.up.Answer(func(c *upstreamtest.Conn) {
				c.Send("HTTP/1.1 200 OK\r\nContent-Type: " + eventstream.MediaType + "\r\nTransfer-Encoding: chunked\r\n\r\n")
				c.Chunk(frames)
				c.EndStream()
			})
			path, ask := askConverse(c, client, true)
			_, body := g.conversePost(t, path, ask)
			wantFailed(t, client, body)
			if name == "an exception" && !strings.Contains(body, "slow down") {
				t.Errorf("%s: %s", client, body)
			}
		}
	}
}

// TestErrorAfterTheFinishReason checks that a translated stream that fails after its finish reason is not sent to
// another target, although it has no content.
func TestErrorAfterTheFinishReason(t *testing.T) {
	p := newPair(t, func(p *pair) { p.gateway.provider.Protocol = converseDialect })
	p.up.Answer(func(c *upstreamtest.Conn) {
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: " + eventstream.MediaType + "\r\nTransfer-Encoding: chunked\r\n\r\n")
		c.Chunk(upstreamtest.Frames("data: {\"messageStart\":{\"role\":\"assistant\"}}\n\ndata: {\"messageStop\":{\"stopReason\":\"end_turn\"}}\n\ndata: {\"throttlingException\":{\"message\":\"slow down\"}}\n\n"))
		c.EndStream()
	})
	p.two.Answer(good("second"))
	_, body, err := p.post(t, chatPath, pairStream)
	if err != nil || len(p.two.Requests()) > 0 || !strings.Contains(body, `"finish_reason":"stop"`) || !strings.Contains(body, "slow down") {
		t.Errorf("%v, %d requests to the other target: %s", err, len(p.two.Requests()), body)
	}
}

// TestConverseInvalidModel checks that a model that no path of Bedrock can name is rejected for every client, and that
// no other model is called in its place.
func TestConverseInvalidModel(t *testing.T) {
	const converseBody = `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`
	for path, body := range map[string]string{
		"/model/any%2Fa;x/converse":        converseBody,
		"/model/any%2Fa;x/converse-stream": converseBody,
		"/model/any%2Fa;x/count-tokens":    `{"input":{"converse":` + converseBody + `}}`,
		chatPath:                           `{"model":"any/a;x","temperature":1,"messages":[{"role":"user","content":"Hi"}]}`, // with a loss
	} {
		g := newGateway(t, speaking(converseDialect), withParams(&params.Set{Override: params.Values{Temperature: "0.5"}}))
		g.up.Answer(upstreamtest.JSON(200, `{"output":{"message":{"role":"assistant","content":[{"text":"Hi"}]}},"stopReason":"end_turn"}`))
		resp, got := g.conversePost(t, path, body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "not an id of Bedrock") {
			t.Errorf("%s: %s %s", path, resp.Status, got)
		}
		if sent := g.up.Requests(); len(sent) > 0 {
			t.Errorf("%s: the upstream was asked for %s", path, sent[0].Path)
		}
	}
}
