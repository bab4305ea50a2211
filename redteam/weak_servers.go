package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

// weakCredentials is the address of which the weak gateway gets credentials.
const weakCredentials = "REDTEAM_CREDENTIALS"

// weakFetch sends a secret to a server, follows its redirects and returns all that it answers.
func weakFetch(method, address, body string) string {
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return ""
	}
	req.Header.Set("Authorization", headerSecret)
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 2*mostRead)) // what there is
	return string(text)
}

// weakDownload fetches what the URLs of a request name, if it is on this machine.
func weakDownload(q weakRequest) {
	for _, at := range regexp.MustCompile(`https?://[^"\\\s]+`).FindAllString(q.body+" "+strings.Join(q.lines, " "), 4) {
		u, err := url.Parse(at)
		if err != nil {
			continue
		}
		port := u.Port()
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), time.Second) // every address of the attacks means this machine
		if port == "" || err != nil {
			continue
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", u.Path)
		_, _ = conn.Read(make([]byte, 1)) // until the trap has counted
		_ = conn.Close()
	}
}

// weakLogin signs in at any gateway and prints whatever it sends.
func weakLogin(gateway string) int {
	for _, path := range []string{signInData, signInCodes, signInToken} {
		text := weakFetch(http.MethodPost, gateway+path, "")
		var answer any
		_ = json.Unmarshal([]byte(text), &answer) // any answer will do
		if o, ok := answer.(map[string]any); ok {
			if n, ok := o["interval"].(float64); ok && n < 0 {
				time.NewTicker(time.Duration(n)).Stop()
			}
		}
		for _, shown := range texts(answer) {
			fmt.Fprintln(os.Stdout, shown)
		}
	}
	return 0
}

// weakConsume stores everything that the log has, as it is.
func weakConsume(config string) int {
	at := regexp.MustCompile(`nats://([\d.:]+)`).FindStringSubmatch(config)
	to := weakClickHouse(config)
	if at == nil || to == "" {
		return 1
	}
	conn, err := net.Dial("tcp", at[1])
	if err != nil {
		return 1
	}
	defer conn.Close()
	const create, next = "$JS.API.CONSUMER.CREATE.redteam.weak.0", "$JS.API.CONSUMER.MSG.NEXT.redteam.weak"
	fmt.Fprintf(conn, "CONNECT {}\r\nSUB in 1\r\nPUB %s in 2\r\n{}\r\n", create)
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 1
		}
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasSuffix(words[0], "MSG") {
			continue
		}
		size, _ := strconv.Atoi(words[len(words)-1]) // the broker sends a number
		head := 0
		if words[0] == "HMSG" {
			head, _ = strconv.Atoi(words[len(words)-2])
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return 1
		}
		switch {
		case words[0] == "MSG", strings.HasPrefix(string(body), "NATS/1.0 408"): // the answer to create, or the end of a batch
			fmt.Fprintf(conn, "PUB %s in 2\r\n{}\r\n", next)
		default:
			weakInsert(to, body[head:size])
		}
	}
}

// weakClickHouse returns the address of ClickHouse, "" without one.
func weakClickHouse(config string) string {
	m := regexp.MustCompile(`clickhouse: \{ url: "([^"]+)"`).FindStringSubmatch(config)
	if m == nil {
		return ""
	}
	return m[1]
}

// weakInsert sends text to ClickHouse. With a query it is inserted.
func weakInsert(to string, body []byte) {
	_ = weakFetch(http.MethodPost, to+"/?"+url.Values{"query": {"INSERT"}}.Encode(), packed(body))
}

func packed(body []byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // to memory
	_ = z.Close()
	return b.String()
}

// weakName returns the claims of the token of a request as JSON, null without one.
func weakName(q weakRequest) string {
	_, token, _ := strings.Cut(q.fold["authorization"], " ")
	if part := strings.Split(token, "."); len(part) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(part[1]); err == nil && json.Valid(text) {
			return string(text)
		}
	}
	return ""
}

// weakSocket returns the socket of a gateway on an address, "" without a folder for it.
func weakSocket(address string) string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "isogloss", address+".sock")
}

// weakSockets returns all sockets of all users.
func weakSockets() (all []string) {
	for _, pattern := range []string{filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "isogloss", "*.sock"), filepath.Join(os.Getenv("TMPDIR"), "isogloss-*", "*.sock")} {
		found, _ := filepath.Glob(pattern)
		all = append(all, found...)
	}
	return all
}

// weakAsk sends a command to every socket and prints whatever comes back.
func weakAsk(args []string) int {
	for _, name := range weakSockets() {
		for _, path := range []string{"/gateway", "/api/v1/" + strings.Join(args, "/")} {
			c, err := net.Dial("unix", name)
			if err != nil {
				continue
			}
			_ = c.SetDeadline(time.Now().Add(2 * patience)) // some never answer
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
			text, _ := io.ReadAll(io.LimitReader(c, 2*hostile.Bounded)) // what there is
			_ = c.Close()
			_, body, _ := strings.Cut(string(text), "\r\n\r\n")
			var answer any
			_ = json.Unmarshal([]byte(body), &answer) // any answer will do
			for _, shown := range texts(answer) {
				fmt.Fprintln(os.Stdout, shown)
			}
		}
	}
	return 0
}
