package app

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestClearHTTP2 checks that the client port speaks HTTP/2 without TLS only with h2c, and that it announces limits.streams.
func TestClearHTTP2(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`))
	configuration := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nproviders:\n  up: { protocol: openai-chat, base_url: %q }\nmodels:\n  m: { targets: [up/m] }\n", up.BaseURL())
	var clear http.Protocols
	clear.SetUnencryptedHTTP2(true)
	post := func(g *gateway) (string, error) {
		tr := &http.Transport{Protocols: &clear}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.Proto + " " + resp.Status, err
	}
	if got, err := post(start(t, configuration, quick())); err == nil {
		t.Errorf("without h2c: %s", got)
	}
	g := start(t, configuration+"h2c: true\nlimits: { streams: 7 }\n", quick())
	if got, err := post(g); err != nil || got != "HTTP/2.0 200 OK" {
		t.Errorf("with h2c: %s, %v", got, err)
	}
	if got := announcedStreams(t, g.url); got != 7 {
		t.Errorf("it announces %d streams", got)
	}
}

// announcedStreams returns SETTINGS_MAX_CONCURRENT_STREAMS of a server.
func announcedStreams(t *testing.T, url string) uint32 {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	head := make([]byte, 9)
	if _, err := io.ReadFull(c, head); err != nil || head[3] != 4 {
		t.Fatalf("the first frame is %x, %v", head, err)
	}
	settings := make([]byte, binary.BigEndian.Uint32(head)>>8)
	if _, err := io.ReadFull(c, settings); err != nil {
		t.Fatal(err)
	}
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == 3 {
			return binary.BigEndian.Uint32(settings[2:])
		}
	}
	return 0
}
