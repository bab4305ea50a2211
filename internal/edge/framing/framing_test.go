package framing

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rig is a server whose responses repeat the request's path and body.
type rig struct {
	address string
	tls     *tls.Config // of clients; nil: not encrypted
	log     *bytes.Buffer
	server  *http.Server
}

// start starts a server, over TLS if encrypted.
func start(t *testing.T, encrypted bool, states ...func(net.Conn, http.ConnState)) *rig {
	t.Helper()
	return startChanged(t, encrypted, func(s *http.Server) {
		for _, f := range states {
			s.ConnState = f
		}
	})
}

// startChanged is start for a server that is changed before it serves.
func startChanged(t *testing.T, encrypted bool, change func(*http.Server)) *rig {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s tls=%t %s %v", r.Proto, r.URL.Path, r.TLS != nil && r.TLS.HandshakeComplete, body, err)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{address: l.Addr().String(), log: &bytes.Buffer{}}
	g.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(g.log, "", 0)}
	change(g.server)
	if encrypted {
		known := httptest.NewUnstartedServer(nil)
		known.StartTLS()
		known.Close()
		g.tls = &tls.Config{InsecureSkipVerify: true} // the certificate of httptest
		g.server.TLSConfig = &tls.Config{Certificates: known.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	}
	ended := make(chan error)
	go func() { ended <- Serve(g.server, l, new(atomic.Bool)) }()
	t.Cleanup(func() {
		_ = g.server.Close()
		<-ended
	})
	return g
}

// dial connects to the server. protocol is what a TLS client negotiates.
func (g *rig) dial(t *testing.T, protocol string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	if g.tls != nil {
		config := g.tls.Clone()
		config.NextProtos = []string{protocol}
		c = tls.Client(c, config)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// responses returns the statuses and bodies on a connection until the server closes it.
func responses(t *testing.T, c net.Conn) (all []string) {
	t.Helper()
	in := bufio.NewReader(c)
	for {
		if _, err := in.Peek(1); err == io.EOF {
			return all
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("after %q: %v", all, err)
			return all
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		all = append(all, fmt.Sprintf("%d %t %s", resp.StatusCode, resp.Close, body))
	}
}

func eachPort(t *testing.T, test func(t *testing.T, g *rig)) {
	t.Run("plain", func(t *testing.T) { test(t, start(t, false)) })
	t.Run("tls", func(t *testing.T) { test(t, start(t, true)) })
}

// TestRefusals checks that a bad head gets a 400 and a closed connection, whatever was
// sent before it and however it is divided, and that good requests before it are served.
func TestRefusals(t *testing.T) {
	eachPort(t, func(t *testing.T, g *rig) {
		for name, marked := range bad {
			text := strings.Replace(marked, "^", "", 1)
			served := 0
			if strings.HasPrefix(name, "second") || strings.HasPrefix(name, "after") || name == "empty line before" {
				served = 1
			}
			for _, cut := range []int{0, 1, len(text) / 2, len(text) - 1} {
				c := g.dial(t, "http/1.1")
				_, _ = io.WriteString(c, text[:cut])
				_, _ = io.WriteString(c, text[cut:]+"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"+strings.Repeat("x", 64<<10)) // more than is read at once
				got := responses(t, c)
				if len(got) != served+1 || got[served] != "400 true 400 Bad Request" {
					t.Errorf("%s, divided at %d: %q", name, cut, got)
				}
			}
		}
	})
}

// TestServed checks requests that must pass.
func TestServed(t *testing.T) {
	eachPort(t, func(t *testing.T, g *rig) {
		prefix := fmt.Sprintf("200 false HTTP/1.1 / tls=%t ", g.tls != nil)
		for name, text := range good {
			if name == "old" || name == "expect" { // one has another version, the other waits
				continue
			}
			c := g.dial(t, "http/1.1")
			_, _ = io.WriteString(c, text+"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			got := responses(t, c)
			if name == "chunked" { // the last request is not read
				if len(got) != 1 || got[0] != strings.Replace(prefix, "false", "true", 1)+"a\nb <nil>" {
					t.Errorf("%s: %q", name, got)
				}
				continue
			}
			if len(got) < 2 || !strings.HasPrefix(got[0], prefix) || !strings.HasPrefix(got[len(got)-1], "200 true") || !strings.Contains(got[len(got)-1], "/last") {
				t.Errorf("%s: %q", name, got)
			}
			if name == "body" && !strings.Contains(got[0], body) {
				t.Errorf("the body arrives as %q", got[0])
			}
		}
	})
}

// TestExpect checks that a client which waits for 100 Continue gets it.
func TestExpect(t *testing.T) {
	eachPort(t, func(t *testing.T, g *rig) {
		c := g.dial(t, "http/1.1")
		head, rest, _ := strings.Cut(good["expect"], "\r\n\r\n")
		_, _ = io.WriteString(c, head+"\r\n\r\n")
		in := bufio.NewReader(c)
		if line, err := in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatal(line, err)
		}
		_, _ = io.WriteString(c, rest)
		_, _ = in.ReadString('\n')
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(resp.Body); !strings.Contains(string(got), body) {
			t.Errorf("%q", got)
		}
	})
}

// TestNothingFollowsAChunkedRequest checks that bytes after a chunked body are not taken
// for another request, also where net/http would respond without a handler.
func TestNothingFollowsAChunkedRequest(t *testing.T) {
	eachPort(t, func(t *testing.T, g *rig) {
		for _, line := range []string{"POST /a", "GET /a", "OPTIONS *", "PUT /"} {
			c := g.dial(t, "http/1.1")
			_, _ = io.WriteString(c, line+" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nGET /smuggled HTTP/1.1\nHost: a\r\n\r\n")
			if got := responses(t, c); len(got) != 1 {
				t.Errorf("%s: %q", line, got)
			}
		}
	})
}

// TestHTTP2 checks that HTTP/2 works over TLS, with many requests on a connection, and
// only if it was negotiated.
func TestHTTP2(t *testing.T) {
	conns := make(chan net.Conn, 100)
	g := start(t, true, func(c net.Conn, _ http.ConnState) { conns <- c })
	tr := &http.Transport{TLSClientConfig: g.tls, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	for range 3 {
		resp, err := (&http.Client{Transport: tr}).Post("https://"+g.address+"/a", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := "HTTP/2.0 /a tls=true " + body + " <nil>"; string(got) != want {
			t.Errorf("%q", got)
		}
	}
	for first := <-conns; len(conns) > 0; {
		if c := <-conns; c != first {
			t.Errorf("%p and %p are two connections, want one", first, c)
		}
	}
	c := g.dial(t, "http/1.1")
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	if got := responses(t, c); len(got) != 1 || !strings.HasPrefix(got[0], "400") {
		t.Errorf("%q", got)
	}
	c = g.dial(t, "h2") // and then speaks HTTP/1
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n")
	if got := responses(t, c); len(got) != 1 || !strings.HasPrefix(got[0], "400") {
		t.Errorf("%q", got)
	}
}

// TestHTTP2WithoutTLS checks that a server that allows it speaks HTTP/2 in clear text, that it still speaks
// HTTP/1.1, whose heads are checked, and that only a new connection can begin with HTTP/2.
func TestHTTP2WithoutTLS(t *testing.T) {
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	g := startChanged(t, false, func(s *http.Server) { s.Protocols = &both })
	var clear http.Protocols
	clear.SetUnencryptedHTTP2(true)
	for want, protocols := range map[string]*http.Protocols{"HTTP/2.0": &clear, "HTTP/1.1": nil} {
		tr := &http.Transport{Protocols: protocols}
		defer tr.CloseIdleConnections()
		for range 3 {
			resp, err := (&http.Client{Transport: tr}).Post("http://"+g.address+"/a", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(got) != want+" /a tls=false "+body+" <nil>" {
				t.Errorf("%q", got)
			}
		}
	}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, text := range []string{get + preface, get + "X: b\n\r\n"} {
		c := g.dial(t, "")
		_, _ = io.WriteString(c, text)
		if got := responses(t, c); len(got) != 2 || !strings.HasPrefix(got[1], "400") {
			t.Errorf("%q: %q", text, got)
		}
	}
	c := g.dial(t, "")
	_, _ = io.WriteString(c, "\r\n"+preface)
	got := make([]byte, len("HTTP/1.1 400")) // net/http refuses the empty line, and may reset the connection
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "HTTP/1.1 400" {
		t.Errorf("an empty line and the preface: %q, %v", got, err)
	}
}

// TestFailedHandshake checks what a client gets that speaks HTTP without TLS, and that the
// failure is logged once.
func TestFailedHandshake(t *testing.T) {
	g := start(t, true)
	g.tls = nil
	c := g.dial(t, "")
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	got, _ := io.ReadAll(c) // the connection may be reset after the response
	if !strings.Contains(string(got), "400 Bad Request") || !strings.Contains(string(got), "HTTPS") {
		t.Errorf("%q", got)
	}
	_ = g.server.Close()
	if n := strings.Count(g.log.String(), "TLS handshake error"); n != 1 {
		t.Errorf("%d lines: %s", n, g.log)
	}
}
