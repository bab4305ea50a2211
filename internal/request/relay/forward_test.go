package relay

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const everyByte = "\x00\x01\xff\xfe\r\n\r\n0\r\n\r\n data: [DONE]\n\n {\"error\":1} \xe5\x8c"

// TestForwardIsExact checks that only requests whose method and path are listed are
// forwarded.
func TestForwardIsExact(t *testing.T) {
	g := newGateway(t, listSpeech)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, "{}"))
	for _, target := range []string{
		"POST /v1/audio/speech/", "POST /v1/audio/speech/x", "POST /v1/audio", "POST /v1/audio/speec",
		"POST /v1/audio/speech%2F", "POST /v1/audio%2Fspeech", "POST /v1/audio%2fspeech", "POST /v1/%61udio/speech",
		"POST //v1/audio/speech", "POST /v1//audio/speech", "POST /v1/./audio/speech", "POST /v1/x/../audio/speech",
		"POST /v1/audio/speech/..", "POST /v1/audio/speech/.", "POST /v1/audio/speech%00", "POST /v1/audio/speech;x=1",
		"POST /v1/Audio/speech", "POST /V1/AUDIO/SPEECH", "POST /v1/audio/speech%3Fa=b", "POST /v1/audio\\speech",
		"GET /v1/audio/speech", "PUT /v1/audio/speech", "DELETE /v1/audio/speech", "HEAD /v1/audio/speech",
		"OPTIONS /v1/audio/speech", "PATCH /v1/audio/speech", "post /v1/audio/speech",
	} {
		method, _, _ := strings.Cut(target, " ")
		c, r := g.dial(t)
		_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", target)
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", target, resp.StatusCode)
		}
	}
	if n := len(g.up.Requests()); n != 0 {
		t.Errorf("%d of them reached the upstream: %v", n, g.up.Requests())
	}
	if resp, _, _ := g.post(t, speechPath, "x"); resp.StatusCode != http.StatusOK {
		t.Errorf("the listed path: %d", resp.StatusCode)
	}
}

// TestForwardLeavesBodiesAlone checks that request and response bodies of any media type
// are forwarded unchanged.
func TestForwardLeavesBodiesAlone(t *testing.T) {
	for _, media := range []string{"", "audio/mpeg", "application/json", "text/event-stream", "multipart/form-data; boundary=\"x y\"", "text/html"} {
		for how, head := range map[string]string{"with length": fmt.Sprintf("Content-Length: %d\r\n", len(everyByte)), "until close": "Connection: close\r\n"} {
			t.Run(media+" "+how, func(t *testing.T) {
				g := newGateway(t, listSpeech)
				g.up.Answer(func(c *upstreamtest.Conn) {
					if media != "" {
						head += "Content-Type: " + media + "\r\n"
					}
					c.Send("HTTP/1.1 201 Created\r\n" + head + "\r\n" + everyByte)
				})
				resp, body, err := g.post(t, speechPath, everyByte, "Content-Type", media)
				if err != nil || resp.StatusCode != http.StatusCreated || body != everyByte {
					t.Errorf("%d, %v: %q", resp.StatusCode, err, body)
				}
				if got := resp.Header.Get("Content-Type"); got != media {
					t.Errorf("the client got the type %q", got)
				}
				sent := g.up.Last(t)
				if string(sent.Body) != everyByte || sent.Header.Get("Content-Type") != media {
					t.Errorf("the upstream got %q of type %q", sent.Body, sent.Header.Get("Content-Type"))
				}
				g.wantLine(t, `"endpoint":"path"`, `"outcome":"ok"`, `"status":201`, `"bytes_in":`, `"bytes_out":`)
			})
		}
	}
}

// TestForwardCredentialsAndQuery checks that the provider's credential replaces the
// client's in headers and query.
func TestForwardCredentialsAndQuery(t *testing.T) {
	g := newGateway(t, listSpeech, func(g *gateway) {
		g.state.Keys = access.NewKeys([]access.Key{{Secret: "client-canary"}})
		g.provider.BaseURL.RawQuery = "api-version=1"
	})
	g.up.Answer(upstreamtest.JSON(http.StatusOK, "{}"))
	if resp, _, _ := g.post(t, speechPath, "x"); resp.StatusCode != http.StatusUnauthorized || len(g.up.Requests()) != 0 {
		t.Fatalf("without a key: %d", resp.StatusCode)
	}
	for query, want := range map[string]string{
		"":                              "?api-version=1",
		"?":                             "?api-version=1",
		"?b=2&a=1&a=%2f+%20&c":          "?api-version=1&b=2&a=1&a=%2f+%20&c",
		"?key=client-canary":            "?api-version=1",
		"?a=1&key=client-canary&b=2":    "?api-version=1&a=1&b=2",
		"?k%65y=client-canary&monkey=1": "?api-version=1&monkey=1",
		"?a=1;key=client-canary":        "?api-version=1",
		"?%zz=client-canary":            "?api-version=1",
	} {
		resp, _, _ := g.post(t, speechPath+query, "x", "X-Api-Key", "client-canary", "Cookie", "client-canary", "X-Forwarded-For", "client-canary")
		sent := g.up.Last(t)
		if resp.StatusCode != http.StatusOK || sent.Path != speechPath+want {
			t.Errorf("%s: %d, the upstream got %s", query, resp.StatusCode, sent.Path)
		}
		if got := sent.Header.Get("Authorization"); got != "Bearer "+upstreamKey {
			t.Errorf("credential %q", got)
		}
		if all := fmt.Sprint(sent); strings.Contains(all, "client-canary") {
			t.Errorf("the client's key reached the upstream: %s", all)
		}
	}
}

// TestForwardFlushes checks that each piece of the response is flushed when it arrives.
func TestForwardFlushes(t *testing.T) {
	g := newGateway(t, listSpeech)
	next := make(chan bool)
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nTransfer-Encoding: chunked\r\n\r\n")
		for c.Chunk("x") && <-next {
		}
		c.EndStream()
		c.KeepAlive()
	})
	resp := g.open(t, speechPath, "x")
	defer resp.Body.Close()
	one := make([]byte, 1)
	for i := range 5 {
		if _, err := io.ReadFull(resp.Body, one); err != nil {
			t.Fatal(err)
		}
		next <- i < 4
	}
	if _, err := resp.Body.Read(one); err != io.EOF {
		t.Errorf("the end is %v", err)
	}
}

// TestForwardTruncatedResponse checks that the client's connection breaks when the
// upstream's response is truncated.
func TestForwardTruncatedResponse(t *testing.T) {
	for name, script := range map[string]upstreamtest.Script{
		"chunked":     upstreamtest.Break("half"),
		"with length": func(c *upstreamtest.Conn) { c.Send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") },
		"reset": func(c *upstreamtest.Conn) {
			c.BeginStream()
			c.Chunk("half")
			c.Reset()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, listSpeech)
			g.up.Answer(script)
			resp, body, err := g.post(t, speechPath, "x")
			if err == nil || resp.StatusCode != http.StatusOK || body != "half" {
				t.Errorf("the client saw a whole answer: %d %q", resp.StatusCode, body)
			}
			g.wantFailure(t, "upstream")
			if n := strings.Count(g.log.String(), `"msg":"exchange"`); n != 1 {
				t.Errorf("%d log lines", n)
			}
		})
	}
}

func TestForwardErrors(t *testing.T) {
	quoted := `{"error":{"message":"` + upstreamKey + ` is wrong"}}`
	for _, c := range []struct {
		name         string
		script       upstreamtest.Script
		status       int
		body, metric string
	}{
		{"our credential", upstreamtest.JSON(401, quoted), 502, "", `kind="upstream_auth"`},
		{"theirs, with our key", upstreamtest.JSON(403, quoted), 403, strings.Replace(quoted, upstreamKey, "***", 1), ""},
		{"a refusal", upstreamtest.JSON(422, `{"detail":[]}`), 422, `{"detail":[]}`, ""},
		{"a page", func(c *upstreamtest.Conn) { c.Whole(503, "text/html", "<html>") }, 503, "", `kind="overloaded"`},
		{"elsewhere", upstreamtest.JSON(302, "", "Location", "http://127.0.0.1:1/"), 502, "", `kind="upstream"`},
		{"no answer", func(*upstreamtest.Conn) {}, 502, "", `kind="upstream"`},
		{"unreadable encoding", upstreamtest.JSON(200, "x", "Content-Encoding", "br"), 502, "", `kind="upstream"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGateway(t, listSpeech)
			g.up.Answer(c.script)
			resp, body, err := g.post(t, speechPath, "x")
			if err != nil || resp.StatusCode != c.status {
				t.Fatalf("%d, %v: %s", resp.StatusCode, err, body)
			}
			if c.body == "" {
				readError(t, body)
			} else if body != c.body {
				t.Errorf("the client got %s", body)
			}
			if strings.Contains(body+g.line(t), upstreamKey) {
				t.Error("the gateway's key got out")
			}
			if counted := strings.Contains(g.metrics(), "isogloss_upstream_errors_total{"+c.metric); counted != (c.metric != "") {
				t.Errorf("counted as a failure of the upstream: %t", counted)
			}
			g.wantIdle(t)
		})
	}
}

// TestForwardLargeUploadAndCompressedResponse checks that a large upload is not buffered,
// and that a response that is compressed without being requested so is decompressed and
// gets its new length.
func TestForwardLargeUploadAndCompressedResponse(t *testing.T) {
	g := newGateway(t, listSpeech)
	packed := strings.Join(squeeze(everyByte, everyByte), "")
	g.up.Answer(upstreamtest.JSON(http.StatusOK, packed, "Content-Encoding", "gzip"))
	upload := strings.Repeat(everyByte, 4<<20/len(everyByte))
	resp, body, err := g.post(t, speechPath, upload, "Accept-Encoding", "gzip")
	if err != nil || body != everyByte+everyByte || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("%v: %q %v", err, body, resp.Header)
	}
	if string(g.up.Last(t).Body) != upload || g.up.Last(t).Header.Get("Accept-Encoding") != "" {
		t.Error("the upload was changed")
	}
	g.wantLine(t, fmt.Sprintf(`"bytes_in":%d`, len(upload)))
}

// TestForwardWithoutBodies checks methods without a request body and responses without a
// body.
func TestForwardWithoutBodies(t *testing.T) {
	g := newGateway(t, func(g *gateway) {
		g.state.Paths = map[provider.Path]*provider.Provider{}
		for _, m := range []string{"GET", "HEAD", "DELETE"} {
			g.state.Paths[provider.Path{Method: m, Path: "/v1/files/a b"}] = g.provider
		}
	})
	g.up.Answer(func(c *upstreamtest.Conn) {
		if c.Request.Method == http.MethodHead {
			c.Send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Encoding: gzip\r\n\r\n")
		} else {
			c.Send("HTTP/1.1 204 No Content\r\n\r\n")
		}
		c.KeepAlive()
	})
	for _, m := range []string{"GET", "HEAD", "DELETE"} {
		req, _ := http.NewRequestWithContext(t.Context(), m, g.URL+"/v1/files/a%20b", nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s: %v %v", m, resp, err)
		}
		resp.Body.Close()
		if sent := g.up.Last(t); sent.Method != m || sent.Path != "/v1/files/a%20b" || len(sent.Body) != 0 {
			t.Errorf("the upstream got %s %s", sent.Method, sent.Path)
		}
	}
	eventually(t, "all are logged", func() bool { return strings.Count(g.log.String(), `"outcome":"ok"`) == 3 })
}

// TestForwardLeavesTheConnectionUsable checks that the read deadline of one upload does
// not affect later requests on the same connection.
func TestForwardLeavesTheConnectionUsable(t *testing.T) {
	g := newGateway(t, listSpeech)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, "{}"))
	conn, r := g.dial(t)
	for range 3 {
		resp := sendRaw(t, conn, r, rawPost(speechPath, "x", 1))
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", resp.StatusCode, err)
		}
	}
}

// TestForwardEarlyResponse checks that an upstream that responds before it has the whole
// body does not let the client hold its connection with the rest.
func TestForwardEarlyResponse(t *testing.T) {
	for framing, piece := range map[string]string{"Content-Length: 200000": "x", "Transfer-Encoding: chunked": "1\r\nx\r\n"} {
		t.Run(framing, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, listSpeech, within(never, never, never))
			up := listen(t)
			*g.provider.BaseURL = url.URL{Scheme: "http", Host: up.Addr().String()}
			defer up.Close()
			go respondEarly(up)
			c, r := g.dial(t)
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s", speechPath, framing, piece)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != "ok" {
				t.Errorf("%v: %q", err, body)
			}
			eventually(t, "the connection is closed", func() bool {
				_, err := io.WriteString(c, piece)
				return err != nil
			})
		})
	}
}

// respondEarly responds to one request as soon as it has its headers.
func respondEarly(l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	r := bufio.NewReader(c)
	if _, err := http.ReadRequest(r); err == nil {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_, _ = io.Copy(io.Discard, r) // until the gateway closes the connection
	}
}
