package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// hostileRequests are bytes that a client sends on one connection. EU and US in them stand for keys of these cells. want
// has the statuses of the responses, with the codes of the router's errors, or "page" for those of HAProxy to what is not
// HTTP. reached are the URIs that a cell got.
var hostileRequests = []struct {
	name, bytes, want string
	reached           []string
}{
	{"dot segments", "GET /pre/../other HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"encoded dots", "GET /pre/%2e%2e/other HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"one dot encoded", "GET /pre/.%2E/other HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"encoded slash after dots", "GET /pre/..%2fother HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"all encoded", "GET /pre%2F%2e%2e%2Fother HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"dots at the end", "GET /pre/.. HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"one dot", "GET /./ready HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"dots in the URL of a proxy", "GET http://y/pre/../other HTTP/1.1\r\nHost: y\r\nX-Api-Key: EU\r\n\r\n", "400 dot_segments", nil},
	{"dots that are no segment", "GET /v1/models/a..b/.c?../.. HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "200", []string{"/v1/models/a..b/.c?../.."}},
	{"encoded twice", "GET /v1/%252e%252e/x HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "200", []string{"/v1/%252e%252e/x"}},
	{"a model with a slash", "GET /v1/models/meta%2Fllama HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "200", []string{"/v1/models/meta%2Fllama"}},

	{"Authorization twice", "GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer EU\r\nAuthorization: Bearer US\r\n\r\n", "400 two_keys", nil},
	{"x-api-key twice", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nx-api-KEY: US\r\n\r\n", "400 two_keys", nil},
	{"x-goog-api-key twice", "GET /a HTTP/1.1\r\nHost: x\r\nX-Goog-Api-Key: EU\r\nX-Goog-Api-Key: EU\r\n\r\n", "400 two_keys", nil},
	{"api-key twice", "GET /a HTTP/1.1\r\nHost: x\r\nApi-Key: \r\nApi-Key: US\r\n\r\n", "400 two_keys", nil},
	{"another key in the query", "GET /a?key=US HTTP/1.1\r\nHost: x\r\nX-Goog-Api-Key: EU\r\n\r\n", "200", []string{"/a?key=US"}},
	{"two keys in a header", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU, US\r\n\r\n", "200", []string{"/a"}}, // which refuses them
	{"a continued header", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key:\r\n EU\r\n\r\n", "200", []string{"/a"}},
	{"a header named by Connection", "GET /a HTTP/1.1\r\nHost: x\r\nConnection: X-Api-Key\r\nX-Api-Key: EU\r\nAuthorization: Bearer US\r\n\r\n", "200", []string{"/a"}},

	{"an unknown cell", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: gw_zz_4fzLq0S8mWcXn2TtYb7PdA_x\r\n\r\n", "421 cell_unknown", nil},
	{"the name of another backend", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: gw_no_cell_x\r\n\r\n", "421 cell_unknown", nil},
	{"a path as cell", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: gw_../eu_4fzLq0S8mWcXn2TtYb7PdA_x\r\n\r\n", "421 cell_unknown", nil},
	{"a cell in capitals", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: gw_EU_4fzLq0S8mWcXn2TtYb7PdA_x\r\n\r\n", "421 cell_unknown", nil},
	{"a format as cell", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: gw_%[str(eu)]_4fzLq0S8mWcXn2TtYb7PdA_x\r\n\r\n", "421 cell_unknown", nil},
	{"a short key", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: gw_\r\n\r\n", "421 cell_unknown", nil},
	{"a token with a payload of dots", "GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + strings.Repeat(".", 30000) + "\r\n\r\n", "421 cell_unknown", nil},
	{"a token of deep JSON", "GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: " + unsigned(strings.Repeat(`{"iss":`, 5000)) + "\r\n\r\n", "421 cell_unknown", nil},
	{"a NUL in the issuer", "GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: " + unsigned(`{"iss":"https://idp.example/us\u0000x"}`) + "\r\n\r\n", "200", []string{"/a"}}, // cell us refuses the token

	{"a header over the limit", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", "400 page", nil},
	{"a path over the limit", "GET /" + strings.Repeat("x", 70<<10) + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 page", nil},
	{"a thousand headers", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n" + strings.Repeat("X: x\r\n", 1000) + "\r\n", "400 page", nil},
	{"a head that does not end", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n", "408 page", nil},

	{"CONNECT", "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\nX-Api-Key: EU\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "405 method_not_allowed, 421 cell_unknown", nil},
	{"a length and chunks", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "200", []string{"/a"}},
	{"two lengths", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nContent-Length: 0\r\nContent-Length: 30\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400 page", nil},
	{"a length with a sign", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nContent-Length: +0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400 page", nil},
	{"an empty length", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nContent-Length: \r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400 page", nil},
	{"a space before the colon", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nTransfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}", "400 page", nil},
	{"another encoding", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nTransfer-Encoding: xchunked\r\nContent-Length: 2\r\n\r\n{}", "400 page", nil},
	{"two encodings", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400 page", nil},
	{"chunks of HTTP/1.0", "POST /a HTTP/1.0\r\nHost: x\r\nX-Api-Key: EU\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "200", []string{"/a"}},
	{"a chunk with a wrong size", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400 page", nil},
	{"a chunk of 2^64 bytes", "POST /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400 page", nil},
	{"bare line feeds", "POST /a HTTP/1.1\nHost: x\nX-Api-Key: EU\nContent-Length: 2\n\n{}", "200", []string{"/a"}},
	{"a NUL in a header", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nX: a\x00b\r\n\r\n", "400 page", nil},
	{"a NUL in the path", "GET /a\x00b HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\n", "400 page", nil},
	{"two hosts", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\nX-Api-Key: EU\r\n\r\n", "400 page", nil},
	{"an upgrade to HTTP/2", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "200", []string{"/a"}},
	{"a second request", "GET /a HTTP/1.1\r\nHost: x\r\nX-Api-Key: EU\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\nGET /c HTTP/1.1\r\nHost: x\r\nX-Api-Key: US\r\n\r\n", "200, 421 cell_unknown, 200", []string{"/a", "/c"}},
}

// TestHostileRequests sends them to the router. No cell may get a request that names another cell, or one that the
// router has not seen as a request.
func TestHostileRequests(t *testing.T) {
	eu, us := newCell(t, "eu"), newCell(t, "us")
	r := startCells(t, cellsConfig{eu: eu.addr, us: us.addr, issuers: "https://idp.example/us us\n", changes: append(slices.Clone(quick), "timeout http-request 10s", "timeout http-request 500ms", "timeout http-keep-alive 2m", "timeout http-keep-alive 100ms", "timeout client 1m", "timeout client 1s")})
	_, inEU := mint("eu")
	_, inUS := mint("us")
	keys := strings.NewReplacer("EU", inEU, "US", inUS)
	for _, c := range hostileRequests {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(conn, keys.Replace(c.bytes)) // the router may close the connection before it has read all
			got := statuses(t, conn)
			reached, want := append(eu.requests(), us.requests()...), []string(nil)
			for _, uri := range c.reached {
				want = append(want, keys.Replace(uri))
			}
			if got != c.want || !slices.Equal(reached, want) {
				t.Errorf("responses %q, want %q; the cells got %q, want %q", got, c.want, reached, want)
			}
		})
	}
	if log := r.log(t); strings.Contains(log, inEU) || strings.Contains(log, inUS) {
		t.Error("the log has a key")
	}
	if resp, body := r.post(t, "/v1/x", nil, "X-Api-Key", inEU); resp.Header.Get("Cell") != "eu" {
		t.Errorf("in the end: %d %s", resp.StatusCode, body)
	}
}

// statuses reads the responses of a connection until it ends.
func statuses(t *testing.T, conn net.Conn) string {
	t.Helper()
	var all []string
	for in := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return strings.Join(all, ", ")
		}
		body, _ := io.ReadAll(resp.Body)
		text := fmt.Sprint(resp.StatusCode)
		if resp.Header.Get("Content-Type") == "application/json" {
			text += " " + codeOf(t, body)
		} else if resp.StatusCode >= 400 {
			text += " page"
		} else if cell, word := resp.Header.Get("Cell"), resp.Header.Get("Word"); word != "" && cell != word {
			t.Errorf("cell %s got a request with a key of %s", cell, word)
		}
		all = append(all, text)
	}
}

// codeOf returns the code of an error, which must have what the SDKs of all dialects read.
func codeOf(t *testing.T, body []byte) string {
	t.Helper()
	var problem struct {
		Type  string
		Error struct{ Type, Code, Message string }
	}
	if err := json.Unmarshal(body, &problem); err != nil || problem.Type != "error" || problem.Error.Type == "" || problem.Error.Message == "" {
		t.Errorf("an error is %s: %v", body, err)
	}
	return problem.Error.Code
}

// TestLoop checks that a cell whose address leads back to the router, or to another router of the same cells, gets one
// round.
func TestLoop(t *testing.T) {
	address, err := testrig.Address()
	if err != nil {
		t.Fatal(err)
	}
	first := startCells(t, cellsConfig{eu: address, changes: quick}) // nobody is there yet
	second := startCells(t, cellsConfig{eu: first.addr, changes: append(slices.Clone(quick), "bind 0.0.0.0:8080\n", "bind 0.0.0.0:8080\n  bind "+address+"\n")})
	_, key := mint("eu")
	for name, r := range map[string]*cellRouter{"first": first, "second": second} {
		testrig.Eventually(t, "the cell of the "+name+" router is up", func() bool {
			return strings.Contains(r.page(t), `haproxy_server_status{proxy="cell_eu",server="eu1",state="UP"} 1`)
		})
		if resp, body := r.post(t, "/v1/x", nil, "X-Api-Key", key); resp.StatusCode != http.StatusLoopDetected || !strings.Contains(body, `"code":"cell_loop"`) {
			t.Errorf("through the %s router: %d %s", name, resp.StatusCode, body)
		}
	}
	if lines := strings.Count(first.log(t), "POST /v1/x"); lines != 2 {
		t.Errorf("the first router has %d requests, want 2", lines)
	}
}

// TestSilentCell checks that a request to a cell that takes connections and never responds ends, and that the cell gets
// no further ones.
func TestSilentCell(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // whose queue takes connections
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	eu := newCell(t, "eu")
	backends := fmt.Sprintf("\nbackend cell_silent from cells\n  server one %s\n  server eu1 %s backup\n", l.Addr(), eu.addr)
	r := startCells(t, cellsConfig{eu: eu.addr, backends: backends, changes: []string{"timeout server 10m", "timeout server 700ms", "inter 2s", "inter 1h"}})
	if resp, body := r.post(t, "/v1/x", bytes.NewReader([]byte("{}")), bearer("silent")...); resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(body, `"code":"cell_silent"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if got := eu.requests(); len(got) > 0 {
		t.Errorf("a request that was sent is sent again: %v", got)
	}
	r.reload(t, cellsConfig{eu: eu.addr, backends: backends, changes: quick}, "the cell is down", func() bool {
		return strings.Contains(r.page(t), `haproxy_server_status{proxy="cell_silent",server="one",state="DOWN"} 1`)
	})
	if resp, body := r.post(t, "/v1/x", bytes.NewReader([]byte("{}")), bearer("silent")...); resp.Header.Get("Cell") != "eu" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
