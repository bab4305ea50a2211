package relay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// lateStream is a stream of a Gemini upstream with an image after its text.
const lateStream = `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Here"}]},"index":0}],"modelVersion":"m","responseId":"g"}` + "\n\n" +
	`data: {"candidates":[{"content":{"role":"model","parts":[{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}` + "\n\n"

// TestLateLosses checks that a client is told about a loss that its headers cannot have: in
// a trailer, and in a comment before the last events if its dialect allows comments. The log
// has it too.
func TestLateLosses(t *testing.T) {
	for _, c := range []struct{ path, body, code, last string }{
		{chatPath, `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`, "block.unknown", "data: [DONE]"},
		{messagesPath, `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`, "media.unsupported", "event: message_delta"},
		{"/v1/responses", `{"model":"m","stream":true,"input":"Hi"}`, "media.unsupported", "event: response.completed"},
	} {
		g := newGateway(t, speaking(geminiDialect))
		next := make(chan bool, 2)
		g.up.Answer(func(conn *upstreamtest.Conn) {
			first, rest, _ := strings.Cut(lateStream, "\n\n")
			conn.BeginStream()
			conn.Chunk(first + "\n\n")
			<-next // the client has the headers
			conn.Chunk(rest)
			conn.EndStream()
		})
		resp := g.open(t, c.path, c.body)
		if got := resp.Header.Get("Isogloss-Fidelity"); strings.Contains(got, c.code) || resp.Trailer == nil {
			t.Errorf("%s: the header is %q, the trailers are %v", c.path, got, resp.Trailer)
		}
		next <- true
		body := readAll(t, resp)
		got := resp.Trailer.Get("Isogloss-Fidelity")
		if !strings.Contains(got, c.code) {
			t.Errorf("%s: the trailer is %q", c.path, got)
		}
		if !strings.Contains(body, "\n: isogloss-fidelity "+got+"\n"+c.last) {
			t.Errorf("%s: no comment before the last event: %s", c.path, body)
		}
		g.wantLine(t, `"fidelity":"`+strings.ReplaceAll(got, `"`, `\"`))
	}
}

// TestLateLossesWithoutComments checks a dialect whose clients cannot read comments.
func TestLateLossesWithoutComments(t *testing.T) {
	g := newGateway(t, speaking(anthropicDialect))
	stream := `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
		messagesEvent(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) +
		messagesEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`) +
		messagesEvent(`{"type":"content_block_stop","index":0}`) + "|" +
		messagesEvent(`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`) +
		messagesEvent(`{"type":"content_block_stop","index":1}`) +
		messagesEvent(`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`) +
		messagesEvent(`{"type":"message_stop"}`)
	next := make(chan bool, 1)
	g.up.Answer(func(conn *upstreamtest.Conn) {
		first, rest, _ := strings.Cut(stream, "|")
		conn.BeginStream()
		conn.Chunk(first)
		<-next
		conn.Chunk(rest)
		conn.EndStream()
	})
	resp := g.open(t, requestPath(geminiDialect, true), geminiRequest)
	next <- true
	body := readAll(t, resp)
	if got := resp.Trailer.Get("Isogloss-Fidelity"); !strings.Contains(got, "server_tool.dropped") || strings.Contains(body, "\n:") {
		t.Errorf("%q: %s", got, body)
	}
}

// TestLateLossesInHTTP2 checks the trailer in HTTP/2.
func TestLateLossesInHTTP2(t *testing.T) {
	g := newGateway(t, speaking(geminiDialect))
	g.up.Answer(upstreamtest.Stream(lateStream))
	srv := httptest.NewUnstartedServer(g.relay)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	g.URL, g.client = srv.URL, srv.Client()
	resp := g.open(t, messagesPath, `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
	readAll(t, resp)
	if got := resp.Trailer.Get("Isogloss-Fidelity"); resp.ProtoMajor != 2 || !strings.Contains(got, "media.unsupported") {
		t.Errorf("%s: %q", resp.Proto, got)
	}
}

// TestLateStopReason checks a loss that only the end of a stream shows.
func TestLateStopReason(t *testing.T) {
	g := newGateway(t, speaking(chatDialect))
	next := make(chan bool, 1)
	g.up.Answer(func(conn *upstreamtest.Conn) {
		conn.BeginStream()
		conn.Chunk(chunkStart + `{"content":"Hi"},"finish_reason":null}]}` + "\n\n")
		<-next
		conn.Chunk(chunkStart + `{},"finish_reason":"content_filter"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\ndata: [DONE]\n\n")
		conn.EndStream()
	})
	resp := g.open(t, messagesPath, `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
	next <- true
	body := readAll(t, resp)
	if got := resp.Trailer.Get("Isogloss-Fidelity"); got != `approximated;a=1;d=0;codes="stop_reason.lossy"` || resp.Header.Get("Isogloss-Fidelity") != "exact" || !strings.Contains(body, "\n: isogloss-fidelity "+got+"\n") {
		t.Errorf("%q: %s", got, body)
	}
}

func messagesEvent(data string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
	return "event: " + name + "\ndata: " + data + "\n\n"
}

// TestLateLossesAfterKeepAlive checks that a stream whose headers a keep-alive has sent
// has the trailer too.
func TestLateLossesAfterKeepAlive(t *testing.T) {
	g := newGateway(t, speaking(geminiDialect), func(g *gateway) { g.state.KeepAlive = time.Millisecond })
	next := make(chan bool, 1)
	g.up.Answer(func(conn *upstreamtest.Conn) {
		<-next
		upstreamtest.Stream(lateStream)(conn)
	})
	resp := g.open(t, messagesPath, `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
	next <- true
	body := readAll(t, resp)
	if got := resp.Trailer.Get("Isogloss-Fidelity"); !strings.Contains(got, "media.unsupported") || !strings.Contains(body, "isogloss-fidelity "+got) {
		t.Errorf("%q: %s", got, body)
	}
}

// TestStreamsLoseTheSameAsBodies compares the losses of a stream and of a non-streaming
// response for every client and upstream.
func TestStreamsLoseTheSameAsBodies(t *testing.T) {
	files, err := filepath.Glob("../../../protocol/protocoltest/testdata/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	losses := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		c := sharedCase(t, name)
		for client := range places {
			for up := range places {
				if c.whole(up) == "" || c[string(up)+".upstream.sse"] == "" || c[string(client)+".request.json"] == "" || client == up {
					continue
				}
				g := newGateway(t, speaking(up))
				g.up.Answer(upstreamtest.JSON(200, c.whole(up)))
				path, body := c.ask(client, false)
				whole, _, _ := g.post(t, path, body)
				g.up.Answer(upstreamtest.Stream(c.stream(up)))
				path, body = c.ask(client, true)
				stream, text, _ := g.post(t, path, body)
				if whole.StatusCode != http.StatusOK || stream.StatusCode != http.StatusOK || strings.Contains(text, `"error":{`) {
					continue
				}
				want, got := codesOf(whole.Header.Get("Isogloss-Fidelity")), codesOf(stream.Trailer.Get("Isogloss-Fidelity"))
				if got != want {
					t.Errorf("%s, %s client, %s upstream: the stream lost %q, the body %q", name, client, up, got, want)
				}
				if want != "" {
					losses++
				}
			}
		}
	}
	if losses == 0 {
		t.Error("no case has losses")
	}
}

// codesOf returns the codes of a fidelity.
func codesOf(fidelity string) string {
	return strings.Join(regexp.MustCompile(`codes="(.*?)"`).FindStringSubmatch(fidelity), " ")
}

// readAll reads a body to its end.
func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
