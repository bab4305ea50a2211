package app

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// exchangeRaw sends bytes to a URL's port and returns what comes back until the gateway
// closes the connection.
func exchangeRaw(t *testing.T, address, text string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "https" {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // of writeCertificate
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, text)
	all, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("%q: after %q: %v", text, all, err)
	}
	return string(all)
}

// TestRequestHeads checks that no port accepts a head that a proxy could read in another
// way, and that nothing follows a chunked request.
func TestRequestHeads(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	cert, key := writeCertificate(t)
	files := fmt.Sprintf("tls: {cert: %q, key: %q}", cert, key)
	plain := strings.Replace(numbered(up, 1), "{ protocol: openai-chat, ", "{ protocol: openai-chat, paths: [POST /v1/audio/speech], ", 1)
	first := start(t, plain, quick())
	encrypted := start(t, strings.Replace(plain, "admin: { listen: 127.0.0.1:0 }", "admin: { listen: 127.0.0.1:0, "+files+" }", 1)+files+"\n", quick())
	other := start(t, plain+"metrics: {listen: \"127.0.0.1:0\"}\n", quick())
	const body = `{"model":"fast","messages":[{"role":"user","content":"hi"}]}`
	for port, paths := range map[string][]string{
		first.url:            {"/v1/chat/completions", "/v1/audio/speech", "/v1/models", "/none", "*"},
		encrypted.url:        {"/v1/chat/completions", "/v1/models"},
		first.metricsURL:     {"/metrics", "/explain", "/models", "/none", "*"},
		encrypted.metricsURL: {"/metrics", "/none"},
		other.metricsURL:     {"/metrics", "/live", "/none"},
	} {
		for _, path := range paths {
			for _, method := range []string{"POST", "OPTIONS"} {
				head := method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
				chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\nGET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n", len(body), body)
				for _, lines := range []string{"X: a\nY: b\r\n", "Content-Length: 300\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"} {
					got := exchangeRaw(t, port, head+lines+"\r\n"+chunks)
					if !strings.HasPrefix(got, "HTTP/1.1 400 Bad Request\r\n") || !strings.Contains(got, "\r\nConnection: close\r\n") || strings.Count(got, "HTTP/1.1 ") != 1 {
						t.Errorf("%s %s %s, %q: %q", port, method, path, lines, got)
					}
				}
				if got := exchangeRaw(t, port, head+"Transfer-Encoding: chunked\r\n\r\n"+chunks); strings.Count(got, "HTTP/1.1 ") != 1 {
					t.Errorf("%s %s %s: a request follows a chunked one: %q", port, method, path, got)
				}
			}
		}
	}
}
