package main

import (
	"context"
	"fmt"
	"strings"
)

// smuggled is a second request, hidden in what one parser takes for the body of the first.
const smuggled = "GET /v1/models HTTP/1.1\r\nHost: smuggled\r\n\r\n"

// plain are the lines that every request below has besides those of the attack.
const plain = "Host: gateway\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n"

// framing is a request that two parsers divide differently, at its end or at its lines.
type framing struct {
	name  string
	text  string // {key} and {length} stand for the key and for the length of body
	admin bool
}

// framings returns the requests that a server must refuse as a whole. Each ends with a
// request that closes the connection, so that a server which reads on answers twice.
func framings() (all []framing) {
	add := func(name, text string) { all = append(all, framing{name: name, text: text}) }
	line := func(name, lines string) { // the lines stand among the headers of a valid request
		add(name, "POST /v1/chat/completions HTTP/1.1\r\n"+plain+lines+"\r\n{body}")
	}
	chunked := func(name, body string) {
		add("chunk-"+name, "POST /v1/chat/completions HTTP/1.1\r\n"+plain+"Transfer-Encoding: chunked\r\n\r\n"+body)
	}
	for _, coding := range []string{"chunked", "identity", "chunked, identity", "identity, chunked", "chunked, chunked", "gzip, chunked", "xchunked", "chunked;q=1", "\x0bchunked", `"chunked"`} {
		add("length-and-coding/"+coding, "POST /v1/chat/completions HTTP/1.1\r\n"+plain+"Content-Length: {length}\r\nTransfer-Encoding: "+coding+"\r\n\r\n0\r\n\r\n"+smuggled+"{body}")
	}
	for _, coding := range []string{"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding : chunked",
		"Transfer-Encoding\t: chunked", "Transfer-Encoding: chunked\r\n , identity", "X: y\rTransfer-Encoding: chunked", "Transfer_Encoding : chunked", "Transfer-Encoding:\x00chunked"} {
		line("coding-line/"+coding, coding+"\r\nContent-Length: {length}\r\n")
	}
	for _, length := range []string{"{length}\r\nContent-Length: 3", "3\r\nContent-Length: {length}", "{length}, 3", "+{length}", "-{length}", "0x10", "1e2", "{length}.0", "{length} 3", "", "99999999999999999999", "-1", "٣", "{length};x"} {
		line("length/"+length, "Content-Length: "+length+"\r\n")
	}
	for name, lines := range map[string]string{
		"bare-cr":          "X-A: a\rX-B: b\r\n",
		"nul":              "X-A: a\x00b\r\n",
		"no-colon":         "X-A\r\n",
		"no-name":          ": a\r\n",
		"space-in-name":    "X A: a\r\n",
		"parentheses":      "X(A): a\r\n",
		"latin1-name":      "X-\xe9: a\r\n",
		"control":          "X-A: a\x01b\r\n",
		"delete":           "X-A: a\x7fb\r\n",
		"two-hosts":        "Host: other\r\n",
		"70-kB":            "X-A: " + strings.Repeat("a", 70<<10) + "\r\n",
		"1-MB":             "X-A: " + strings.Repeat("a", 1<<20) + "\r\n",
		"70-kB-of-names":   strings.Repeat("X-A: \r\n", 10<<10),
		"expect-something": "Expect: 200-ok\r\n",
	} {
		line("header/"+name, lines+"Content-Length: {length}\r\n")
	}
	add("length-and-coding/1.0", "POST /v1/chat/completions HTTP/1.0\r\n"+plain+"Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{body}")
	add("coding/1.0", "POST /v1/chat/completions HTTP/1.0\r\nConnection: keep-alive\r\n"+plain+"Transfer-Encoding: chunked\r\n\r\n"+smuggled)
	add("bare-lf/all", strings.ReplaceAll("POST /v1/chat/completions HTTP/1.1\r\n"+plain+"Content-Length: {length}\r\n\r\n", "\r\n", "\n")+"{body}")
	add("bare-lf/one", "POST /v1/chat/completions HTTP/1.1\r\n"+plain+"X-A: a\nX-B: b\r\nContent-Length: {length}\r\n\r\n{body}")
	add("bare-lf/end", "POST /v1/chat/completions HTTP/1.1\r\n"+plain+"Content-Length: {length}\r\n\n{body}")
	add("bare-lf/hidden-length", "POST /v1/chat/completions HTTP/1.1\r\n"+plain+"X-A: a\nContent-Length: {length}\r\n\r\n{body}")
	add("bare-lf/request-line", "POST /v1/chat/completions HTTP/1.1\n"+plain+"Content-Length: {length}\r\n\r\n{body}")

	chunked("hexadecimal-prefix", "0x5\r\nhello\r\n0\r\n\r\n")
	chunked("negative", "-5\r\nhello\r\n0\r\n\r\n")
	chunked("plus", "+5\r\nhello\r\n0\r\n\r\n")
	chunked("overflow", "10000000000000005\r\nhello\r\n0\r\n\r\n")
	chunked("overflow-63", "8000000000000000\r\nhello\r\n0\r\n\r\n")
	chunked("underscore", "1_0\r\nhello\r\n0\r\n\r\n")
	chunked("empty-size", "\r\nhello\r\n0\r\n\r\n")
	chunked("word", "five\r\nhello\r\n0\r\n\r\n")
	chunked("no-end-of-line", "5\r\nhelloXX0\r\n\r\n")
	chunked("bare-lf", "5\nhello\n0\n\n")
	chunked("lf-in-extension", "5;a\nb\r\nhello\r\n0\r\n\r\n")
	chunked("long-extension", "5;"+strings.Repeat("a", 100<<10)+"\r\nhello\r\n0\r\n\r\n")
	chunked("long-size", strings.Repeat("0", 10<<10)+"5\r\nhello\r\n0\r\n\r\n")
	chunked("tiny", strings.Repeat("1;"+strings.Repeat("e", 200)+"\r\n \r\n", 2000)+"0\r\n\r\n")
	chunked("long-trailer", "5\r\nhello\r\n0\r\nX-A: "+strings.Repeat("a", 100<<10)+"\r\n\r\n")

	for name, first := range map[string]string{
		"0.9": "POST /v1/chat/completions", "1.2": "POST /v1/chat/completions HTTP/1.2x", "2.0": "POST /v1/chat/completions HTTP/2.0",
		"9.9": "POST /v1/chat/completions HTTP/9.9", "lower": "POST /v1/chat/completions http/1.1", "two-spaces": "POST  /v1/chat/completions HTTP/1.1", "tab": "POST\t/v1/chat/completions\tHTTP/1.1",
		"no-slash": "POST v1/chat/completions HTTP/1.1", "control": "POST /v1/chat/\x01completions HTTP/1.1", "method": "PO(ST /v1/chat/completions HTTP/1.1", "trailing": "POST /v1/chat/completions HTTP/1.1 x",
		"percent": "POST /v1/chat/completions%zz HTTP/1.1", "long": "POST /" + strings.Repeat("a", 80<<10) + " HTTP/1.1", "bad-host": "POST http://a@b:c/v1/chat/completions HTTP/1.1",
	} {
		add("request-line/"+name, first+"\r\n"+plain+"Content-Length: {length}\r\n\r\n{body}")
	}
	add("host/none", "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n{body}")
	for _, host := range []string{"a b", "a/b", "a\x00b", "<script>"} {
		add("host/"+host, "POST /v1/chat/completions HTTP/1.1\r\n"+strings.Replace(plain, "gateway", host, 1)+"Content-Length: {length}\r\n\r\n{body}")
	}
	for _, f := range all { // the admin port reads requests with the same code, and must
		if strings.HasPrefix(f.name, "length-and-coding/chunked") || strings.HasPrefix(f.name, "bare-lf/") || strings.HasPrefix(f.name, "length/") {
			f.text, f.admin, f.name = strings.Replace(f.text, "/v1/chat/completions", "/explain", 1), true, "admin/"+f.name
			all = append(all, f)
		}
	}
	return all
}

func smuggleAttacks() (all []attack) {
	body := generate("chat", "openai-chat", "chat").body
	key := func(r *rig, text string) string {
		return strings.NewReplacer("{key}", r.keys["full"], "{length}", fmt.Sprint(len(body)), "{body}", body).Replace(text)
	}
	for _, f := range framings() {
		do := func(ctx context.Context, r *rig) *evidence {
			return r.sendRaw(ctx, key(r, f.text)+"GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", f.admin, "", idlePatience)
		}
		all = append(all, attack{name: "smuggle/" + fmt.Sprintf("%.60q", f.name), do: do, holds: []oracle{refusesFrame, once}})
	}
	// Continuation lines are one value with the line before, never a header of their own.
	for name, lines := range map[string]string{"space": "X-Fold: a\r\n X-Injected: yes\r\n", "tab": "X-Fold: a\r\n\tX-Injected: yes\r\n", "authorization": "X-Fold: a\r\n Authorization: Bearer x\r\n", "host": "X-Fold: a\r\n Host: x\r\n"} {
		do := func(ctx context.Context, r *rig) *evidence {
			e := r.sendRaw(ctx, key(r, "POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\n"+plain+lines+"Content-Length: {length}\r\n\r\n{body}"), false, "", idlePatience)
			for _, s := range e.upstream {
				e.problem(s.header.Get("X-Injected") != "" || strings.Contains(strings.Join(s.header["Authorization"], ","), "Bearer x"), "a continuation line became a header: %v", s.header)
			}
			e.problem(e.status != 200 && (e.status < 400 || e.status > 499), "status %d", e.status)
			return e
		}
		all = append(all, attack{name: "smuggle/folded/" + name, do: do, holds: []oracle{once, cleanHeader, ownCredential}})
	}
	// Methods that turn a server into a tunnel or make it repeat headers.
	for name, first := range map[string]string{"connect": "CONNECT 127.0.0.1:22 HTTP/1.1", "connect-path": "CONNECT /v1/chat/completions HTTP/1.1", "preface": "PRI * HTTP/2.0", "trace": "TRACE /v1/chat/completions HTTP/1.1",
		"track": "TRACK / HTTP/1.1", "absolute": "POST http://169.254.169.254/latest/meta-data HTTP/1.1", "upgrade": "GET /v1/models2 HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
		"websocket": "GET /v1/realtime HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13"} {
		do := func(ctx context.Context, r *rig) *evidence {
			return r.sendRaw(ctx, key(r, first+"\r\n"+plain+"X-Secret: "+spoof+"\r\nContent-Length: {length}\r\n\r\n{body}")+"GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false, "", idlePatience)
		}
		all = append(all, attack{name: "smuggle/method/" + name, do: do, holds: []oracle{refuses(), lacks(spoof)}})
	}
	return all
}

// refusesFrame fails unless the request was refused as one that is not HTTP, or the
// connection was closed without a response.
func refusesFrame(_ *rig, e *evidence) string {
	switch {
	case len(e.upstream) > 0:
		return "the upstream received " + e.upstream[0].String()
	case e.answers == 0:
		return ""
	case e.status < 400:
		return fmt.Sprintf("status %d, want a refusal", e.status)
	}
	return ""
}
