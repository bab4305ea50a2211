package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// request is an HTTP request as it is written to the connection.
type request struct {
	method  string // POST if empty
	path    string
	host    string   // the gateway's address if empty
	key     string   // name of the key that is sent as bearer token; empty sends none
	headers []string // names and values in turn
	body    string
	media   string // Content-Type; application/json if empty and there is a body
	admin   bool   // to the admin port
	from    string // client address; the system's choice if empty
}

// headerLine is a line that is written as it is.
const headerLine = "\x00line"

// text returns the bytes of the request. The server closes the connection after it.
func (q request) text(r *rig) string {
	var b strings.Builder
	method, host, media := q.method, q.host, q.media
	if method == "" {
		method = http.MethodPost
	}
	if host == "" {
		host = r.address(q.admin)
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, q.path, host)
	if q.key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", r.keys[q.key])
	}
	for i := 0; i+1 < len(q.headers); i += 2 {
		if q.headers[i] == headerLine {
			b.WriteString(q.headers[i+1] + "\r\n")
		} else {
			b.WriteString(q.headers[i] + ": " + q.headers[i+1] + "\r\n")
		}
	}
	if q.body != "" || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		if media == "" {
			media = testrig.JSONMedia
		}
		if media != "none" {
			fmt.Fprintf(&b, "Content-Type: %s\r\n", media)
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(q.body))
	}
	b.WriteString("\r\n" + q.body)
	return b.String()
}

// Time limits of an attack that should be answered at once; busy machines are slow.
const (
	patience     = 60 * time.Second
	idlePatience = 4 * time.Second // then the client closes its side
)

// send sends a request and returns its whole result.
func (r *rig) send(ctx context.Context, q request) *evidence {
	return r.sendRaw(ctx, q.text(r), q.admin, q.from, 0)
}

// sendRaw writes bytes to a new connection and reads until the gateway closes it. If the
// gateway waits for more bytes than there are, send closes the sending side after a time; 0
// means never.
func (r *rig) sendRaw(ctx context.Context, text string, admin bool, from string, closeAfter time.Duration) *evidence {
	r.take()
	e := &evidence{sent: text}
	conn, err := r.dial(ctx, admin, from)
	testrig.NoError(err)
	defer conn.Close()
	testrig.NoError(conn.SetDeadline(time.Now().Add(patience)))
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, text)
		written <- err
	}()
	if tcp, ok := conn.(*net.TCPConn); ok && closeAfter > 0 {
		idle := time.AfterFunc(closeAfter, func() { _ = tcp.CloseWrite() })
		defer idle.Stop()
	}
	var got bytes.Buffer
	_, err = io.Copy(&got, io.LimitReader(conn, 32<<20))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.note = fmt.Sprintf("the connection was open after %v", patience)
	}
	conn.Close()
	<-written // fails if the gateway closed the connection early, which is allowed
	e.read(got.String())
	e.upstream = r.take()
	return e
}

// read parses the responses.
func (e *evidence) read(got string) {
	e.got = got
	in := bufio.NewReader(strings.NewReader(got))
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return
		}
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode < 200 {
			continue
		}
		if e.answers++; e.answers == 1 {
			e.status, e.header, e.body = resp.StatusCode, resp.Header, string(body)
		}
		if err != nil {
			e.note += " the response is cut off: " + err.Error()
			return
		}
	}
}
