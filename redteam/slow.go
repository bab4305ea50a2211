package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// How long a client may hold a connection with a request that never becomes complete. The
// gateway's own limits are 10 s for the header, 30 s for a small body, and 15 s for the body of a request
// that no model endpoint serves; a busy machine is late.
const (
	headHold  = 60 * time.Second
	bodyHold  = 120 * time.Second
	otherHold = 45 * time.Second
	drip      = 500 * time.Millisecond
)

// dripped is a request that arrives byte by byte and never ends.
type dripped struct {
	name, text string // what is sent at once; {key} is a valid key
	rest       string // what follows byte by byte, again and again; empty sends nothing more
	hold       time.Duration
	admin      bool
}

func drippings() (all []dripped) {
	for _, admin := range []bool{false, true} {
		port := map[bool]string{false: "client", true: "admin"}[admin]
		for name, d := range map[string]dripped{
			"head/nothing":      {},
			"head/request-line": {text: "POST /v1/chat/comp"},
			"head/one-header":   {text: "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"},
			"head/dripped":      {text: "GET /live HTTP/1.1\r\nHost: x\r\n", rest: "X-A: b\r\n"},
			"head/one-long":     {text: "GET /live HTTP/1.1\r\nHost: x\r\nX-A: ", rest: "a"},
		} {
			d.name, d.hold, d.admin = port+"/"+name, headHold, admin
			all = append(all, d)
		}
	}
	body := func(admin bool, line, headers string) {
		for name, length := range map[string]string{"length": "Content-Length: 100000", "chunked": "Transfer-Encoding: chunked"} {
			rest := "x"
			if name == "chunked" {
				rest = "1\r\nx\r\n"
			}
			port := map[bool]string{false: "client", true: "admin"}[admin]
			if strings.Contains(headers, "{key}") {
				name += "-with-key"
			}
			hold := otherHold
			if strings.HasPrefix(line, "POST /v1") {
				hold = bodyHold
			}
			all = append(all, dripped{name: port + "/body/" + line + "/" + name, text: line + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + length + "\r\n\r\n", rest: rest, hold: hold, admin: admin})
		}
	}
	const media, key = "Content-Type: application/json\r\n", "Authorization: Bearer {key}\r\n"
	for _, line := range []string{"POST /v1/chat/completions", "POST /v1/responses", "POST /v1/messages", "POST /v1beta/models/gem/m:generateContent", "POST /v1/embeddings", "POST /v1/audio/speech"} {
		body(false, line, media)
		body(false, line, media+key)
	}
	for _, line := range []string{"OPTIONS *", "OPTIONS /v1/chat/completions", "GET /v1/models", "GET /health", "GET /", "POST /nowhere", "PUT /v1/chat/completions", "DELETE /v1/files"} {
		body(false, line, media)
	}
	for _, line := range []string{"OPTIONS *", "GET /metrics", "POST /explain", "GET /models", "POST /api/v1/keys", "PATCH /api/v1/keys/x", "GET /api/openapi.json", "POST /nowhere", "POST /api/v1/nowhere"} {
		body(true, line, media)
	}
	return all
}

func slowAttacks() (all []attack) {
	for _, d := range drippings() {
		all = append(all, attack{name: "slow/" + d.name, do: d.run})
	}
	return all
}

// run sends the request and measures how long the gateway keeps the connection.
func (d dripped) run(ctx context.Context, r *rig) *evidence {
	text := strings.ReplaceAll(d.text, "{key}", r.keys["full"])
	e := &evidence{sent: text + d.rest + " …"}
	conn := testrig.Must(r.dial(ctx, d.admin, ""))
	defer conn.Close()
	_, err := io.WriteString(conn, text)
	testrig.NoError(err)
	began := time.Now()
	hold := d.hold
	if r.weak {
		hold = 3 * time.Second
	}
	stop := make(chan struct{})
	defer close(stop)
	go d.drip(conn, stop)
	testrig.NoError(conn.SetReadDeadline(began.Add(hold)))
	got, err := io.ReadAll(conn)
	e.read(string(got))
	e.note = fmt.Sprintf("closed after %.1f s", time.Since(began).Seconds())
	e.problem(errors.Is(err, os.ErrDeadlineExceeded), "the connection is open after %v", hold)
	return e
}

// drip writes the rest byte by byte until the connection is closed.
func (d dripped) drip(conn net.Conn, stop chan struct{}) {
	if d.rest == "" {
		return
	}
	tick := time.NewTicker(drip)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-tick.C:
			if _, err := conn.Write([]byte{d.rest[i%len(d.rest)]}); err != nil {
				return
			}
		}
	}
}

// crowdAttacks hold many connections at a time and check that other clients are served.
func crowdAttacks() (all []attack) {
	for name, text := range map[string]string{"nothing": "", "heads": "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n", "bodies": "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nContent-Length: 1000\r\n\r\n{",
		"expect": "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n", "bodies-announced-large": "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nContent-Length: 60000000\r\n\r\n{"} {
		do := func(ctx context.Context, r *rig) *evidence {
			e := &evidence{sent: "500 connections with " + text}
			before := testrig.ProcessMemory(r.gateway.PID(), "VmRSS")
			for i := range 500 {
				conn := testrig.Must(r.dial(ctx, false, addressed(3000+i)))
				defer conn.Close()
				_, _ = io.WriteString(conn, strings.ReplaceAll(text, "{key}", r.keys["full"])) // it may be closed already
			}
			served := r.send(ctx, generate("chat", testrig.Chat, "chat").request("full"))
			e.got = served.got
			e.problem(served.status != 200, "another client gets status %d", served.status)
			grown := testrig.ProcessMemory(r.gateway.PID(), "VmRSS") - before
			e.figure(grown > 500*128<<10+32<<20, "memory has grown by %.0f MB, %.0f KB for each connection", grown/1e6, grown/500/1e3)
			return e
		}
		all = append(all, attack{name: "slow/crowd/" + name, do: do, unproven: "the weak gateway has no limit on connections either"})
	}
	return all
}
