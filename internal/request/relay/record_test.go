package relay

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
)

// faulty is a codec that panics in the method named at.
type faulty struct {
	openaichat.Codec
	at    string
	after int // calls of Event before the panic
}

func (f faulty) fail(at string) {
	if f.at == at {
		panic("canary: " + at)
	}
}

func (f faulty) NewTap(choices int) protocol.Tap {
	f.fail("NewTap")
	return &faultyTap{f.Codec.NewTap(choices), f}
}

func (f faulty) NewStreamDecoder() protocol.StreamDecoder {
	f.fail("NewStreamDecoder")
	return f.Codec.NewStreamDecoder()
}

func (f faulty) NewStreamEncoder(ask *llm.Request) protocol.StreamEncoder {
	f.fail("NewStreamEncoder")
	return f.Codec.NewStreamEncoder(ask)
}

func (f faulty) EncodeResponse(resp *llm.Response, ask *llm.Request, report *llm.Report) []byte {
	f.fail("EncodeResponse")
	return f.Codec.EncodeResponse(resp, ask, report)
}

type faultyTap struct {
	protocol.Tap
	faulty
}

func (f *faultyTap) Event(data []byte) protocol.Mark {
	if f.after--; f.after < 0 {
		f.fail("Event")
	}
	return f.Tap.Event(data)
}

func (f *faultyTap) Body(body []byte) *llm.Error {
	f.fail("Body")
	return f.Tap.Body(body)
}

// TestPanicIsRecordedOnce checks that a panic ends only its own request, with an error in
// the client's dialect, and is logged and counted once.
func TestPanicIsRecordedOnce(t *testing.T) {
	read := make(chan bool)
	inTwo := func(first, then string) upstreamtest.Script {
		return func(c *upstreamtest.Conn) {
			c.BeginStream()
			c.Chunk(first)
			<-read
			c.Chunk(then)
			c.EndStream()
		}
	}
	stream, whole := upstreamtest.Stream(textChunk+stopChunk+sentinel), upstreamtest.JSON(http.StatusOK, plainResponse)
	for _, c := range []struct {
		name   string
		codec  faulty
		ask    string
		change func(*gateway)
		script upstreamtest.Script
		sent   string
	}{
		{"before the call", faulty{at: "NewTap"}, streamRequest, listSpeech, stream, ""},
		{"in the first event", faulty{at: "Event"}, streamRequest, listSpeech, stream, ""},
		{"in a later event", faulty{at: "Event", after: 1}, streamRequest, listSpeech, inTwo(textChunk, stopChunk+sentinel), textChunk},
		{"in the last event", faulty{at: "Event", after: 2}, streamRequest, listSpeech, inTwo(textChunk+textChunk, strings.TrimSpace(stopChunk)), textChunk + textChunk},
		{"in a whole answer", faulty{at: "Body"}, plainRequest, listSpeech, whole, ""},
		{"in a body that is streamed", faulty{at: "NewStreamEncoder"}, streamRequest, listSpeech, whole, ""},
		{"after collecting", faulty{at: "EncodeResponse"}, plainRequest, always, stream, ""},
		{"before collecting", faulty{at: "NewStreamDecoder"}, plainRequest, always, stream, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGateway(t, c.change)
			g.relay.dialects.ByName[protocol.OpenAIChat].Codec = c.codec
			g.up.Answer(c.script)
			resp := g.open(t, chatPath, c.ask)
			defer resp.Body.Close()
			sent := make([]byte, len(c.sent))
			if _, err := io.ReadFull(resp.Body, sent); err != nil {
				t.Fatal(err)
			}
			if c.sent != "" {
				read <- true
			}
			rest, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			body := string(sent) + string(rest)
			var code string
			status := http.StatusInternalServerError
			if c.sent == "" {
				code, _ = readError(t, body)
			} else {
				status = http.StatusOK
				code, _ = readErrorEvent(t, body, c.sent)
			}
			if resp.StatusCode != status || code != "internal_error" || strings.Contains(body, "canary") {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			g.wantLine(t, `"outcome":"gateway_error"`, `"error_kind":"internal"`)
			g.wantIdle(t)
			for text, want := range map[string]int{`"msg":"exchange"`: 1, `"msg":"panic"`: 1, "canary": 0} {
				if n := strings.Count(g.log.String(), text); n != want {
					t.Errorf("%s is in the log %d times:\n%s", text, n, g.log.String())
				}
			}
			if n := len(regexp.MustCompile(`(?m)^isogloss_requests_total\{.*outcome="gateway_error".*\} 1$`).FindAllString(g.metrics(), -1)); n != 1 {
				t.Errorf("counted %d times", n)
			}

			g.relay.dialects.ByName[protocol.OpenAIChat].Codec = openaichat.Codec{}
			g.up.Answer(whole)
			if _, body, err := g.post(t, chatPath, plainRequest); err != nil || (c.ask == plainRequest && body != plainResponse) {
				t.Errorf("the next request: %v %s", err, body)
			}
		})
	}
}

// TestCompressedResponses checks that the gateway does not request compression and that
// it decompresses a compressed response event by event, without a Content-Encoding header
// (SSE-22, SSE-23).
func TestCompressedResponses(t *testing.T) {
	t.Run("whole", func(t *testing.T) {
		g := newGateway(t)
		g.up.Answer(upstreamtest.JSON(http.StatusOK, strings.Join(squeeze(plainResponse), ""), "Content-Encoding", "GZIP"))
		resp, body, err := g.post(t, chatPath, plainRequest, "Accept-Encoding", "gzip, br")
		if err != nil || body != plainResponse || resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%v: %q %v", err, body, resp.Header)
		}
		if got := g.up.Last(t).Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("the upstream was asked for %s", got)
		}
		g.wantSuccess(t)
	})
	t.Run("stream", func(t *testing.T) {
		g := newGateway(t)
		events := []string{textChunk, textChunk, stopChunk, sentinel}
		parts := squeeze(events...)
		next := make(chan bool)
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.BeginStream("Content-Encoding", "gzip")
			for _, p := range parts {
				c.Chunk(p)
				<-next
			}
			c.EndStream()
		})
		resp := g.open(t, chatPath, streamRequest, "Accept-Encoding", "gzip")
		defer resp.Body.Close()
		for _, want := range events {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
				t.Fatalf("%v: %q", err, got)
			}
			next <- true
		}
		close(next)
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 || resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%v: %q %v", err, rest, resp.Header)
		}
		g.wantSuccess(t)
	})
	packed := strings.Join(squeeze(textChunk, stopChunk), "")
	for name, c := range map[string]struct {
		ask, media, encoding, body, sent, code string
	}{
		"cut":            {plainRequest, "application/json", "gzip", packed[:len(packed)/2], "", "upstream_truncated"},
		"cut stream":     {streamRequest, "text/event-stream", "gzip", squeeze(textChunk)[0], textChunk, "upstream_truncated"},
		"not compressed": {plainRequest, "application/json", "gzip", plainResponse, "", "upstream_truncated"},
		"brotli":         {plainRequest, "application/json", "br", "x", "", "upstream_invalid_response"},
		"brotli stream":  {streamRequest, "text/event-stream", "br", "x", "", "upstream_invalid_response"},
		"twice":          {plainRequest, "application/json", "gzip, br", "x", "", "upstream_invalid_response"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				conn.Whole(http.StatusOK, c.media, c.body, "Content-Encoding", c.encoding)
			})
			wantTruncated(t, g, c.ask, c.sent, c.code)
			g.wantFailure(t, "upstream")
		})
	}
}

// TestConcurrentStreamsAreLikeSerialOnes checks that concurrent streams with equal ids do
// not affect each other (LIF-18).
func TestConcurrentStreamsAreLikeSerialOnes(t *testing.T) {
	const streams = 200
	g := newGateway(t, always)
	g.up.Answer(func(c *upstreamtest.Conn) {
		_, rest, _ := strings.Cut(string(c.Request.Body), `"seed":`)
		var seed uint64
		_, _ = fmt.Sscan(rest, &seed)
		upstreamtest.StreamRandom(toolStream(seed), seed)(c)
	})
	ask := func(i int) string {
		base := []string{streamRequest, plainRequest}[i%2]
		_, body, err := g.post(t, chatPath, strings.Replace(base, `"messages"`, fmt.Sprintf(`"seed":%d ,"messages"`, i), 1))
		if err != nil {
			t.Error(err)
		}
		return body
	}
	var serial, concurrent [streams]string
	for i := range serial {
		serial[i] = ask(i)
	}
	var wg sync.WaitGroup
	for i := range concurrent {
		wg.Go(func() { concurrent[i] = ask(i) })
	}
	wg.Wait()
	for i := range serial {
		if i%2 == 0 && serial[i] != toolStream(uint64(i)) {
			t.Errorf("stream %d is not the upstream's: %q", i, serial[i])
		}
		if !strings.Contains(serial[i], fmt.Sprintf(`%d.7`, i)) || serial[i] != concurrent[i] {
			t.Errorf("stream %d\nserial     %q\nconcurrent %q", i, serial[i], concurrent[i])
		}
	}
	g.wantIdle(t)
}

// toolStream returns a stream with a tool call whose pieces contain the seed.
func toolStream(seed uint64) string {
	var b strings.Builder
	b.WriteString(`data: {"id":"same","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_same","type":"function","function":{"name":"f","arguments":""}}]}}]}` + "\n\n")
	for i := range 8 {
		fmt.Fprintf(&b, `data: {"id":"same","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" %d.%d"}}]}}]}`+"\n\n", seed, i)
	}
	b.WriteString(`data: {"id":"same","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}` + "\n\n" + sentinel)
	return b.String()
}
