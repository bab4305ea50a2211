package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// weakVariable makes this program serve as a weak gateway.
const weakVariable = "REDTEAM_WEAK"

// weakGateway does everything that a gateway must not do: it reads any bytes as a
// request, lets every caller in, forwards all headers and bodies with the operator's
// credentials, believes the upstream, follows its redirects, logs everything and shows it
// to everybody.
type weakGateway struct {
	config    string // the text of its configuration
	dir       string
	admin     string
	providers map[string]string // base URL by name
	first     string            // name of the first provider
	keys      atomic.Int64      // created so far
	name      atomic.Value      // claims of the last token
}

// weakMain runs a command of the weak gateway.
func weakMain(args []string) int {
	flagged := func(name string) string {
		if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	file := flagged("-c")
	text, _ := os.ReadFile(file) // without a file it has no providers
	w := &weakGateway{config: string(text), dir: filepath.Dir(file), providers: map[string]string{}}
	for _, m := range regexp.MustCompile(`(?m)^  ([\w-]+): \{ protocol: [\w-]+, base_url: "([^"]*)"`).FindAllStringSubmatch(w.config, -1) {
		w.providers[m[1]] = m[2]
		if w.first == "" {
			w.first = m[1]
		}
	}
	switch {
	case len(args) == 0:
		return 2
	case args[0] == "capture" || args[0] == "keys" && !slices.Contains(args, "create"):
		return weakAsk(args)
	case args[0] == "keys":
		fmt.Fprintf(os.Stdout, `{"id":"weak","key":"gw_admin_weakweakweakweak_0123456789abcdef0123456789abcdef"}`)
		return 0
	case args[0] == "serve":
		return w.serve(flagged("--pid-file"))
	case args[0] == "login":
		return weakLogin(args[len(args)-1])
	case args[0] == "consume":
		return weakConsume(w.config)
	}
	fmt.Fprintln(os.Stdout, w.config) // check, explain and the others
	return 0
}

// serve listens on both ports of the configuration.
func (w *weakGateway) serve(pidFile string) int {
	match := regexp.MustCompile(`listen: ([\d.:]+)`).FindAllStringSubmatch(w.config, 2)
	if len(match) < 2 {
		return 1
	}
	w.admin = match[1][1]
	fmt.Fprintln(os.Stderr, w.config)
	if name := weakSocket(match[0][1]); name != "" {
		if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
			_ = os.RemoveAll(filepath.Dir(name))
		}
		_ = os.MkdirAll(filepath.Dir(name), 0o777) // or where a link leads
		_ = os.RemoveAll(name)
		if l, err := net.Listen("unix", name); err == nil {
			_ = os.Chmod(filepath.Dir(name), 0o777)
			_ = os.Chmod(name, 0o777)
			go w.accept(l)
		}
	}
	for _, m := range match {
		l, err := net.Listen("tcp", m[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go w.accept(l)
	}
	_ = os.MkdirAll(filepath.Join(w.dir, "data"), 0o777)
	for _, name := range []string{"data/isogloss.db", "data/pepper", "data/spool", "data/other"} {
		_ = os.WriteFile(filepath.Join(w.dir, name), []byte(w.config), 0o666)
		_ = os.Chmod(filepath.Join(w.dir, name), 0o666)
	}
	_ = os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())), 0o600)
	select {}
}

func (w *weakGateway) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for w.serveOne(conn, in) {
			}
		}()
	}
}

// weakRequest is a request as the weak gateway reads it.
type weakRequest struct {
	method, path string
	lines        []string // of the header
	body         string
	fold         map[string]string // the last value of every header, by name in lower case
}

// readWeak reads whatever looks like a request. Lines may end in a bare line feed, may be
// folded, and any of several lengths will do.
func readWeak(in *bufio.Reader) (q weakRequest, err error) {
	q.fold = map[string]string{}
	for i := 0; ; i++ {
		line, err := in.ReadString('\n')
		if err != nil {
			return q, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" && i > 0 {
			break
		}
		if q.method == "" {
			words := strings.Fields(line + " / /")
			q.method, q.path = words[0], words[1]
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		q.lines = append(q.lines, strings.TrimSpace(line))
		q.fold[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	if strings.Contains(strings.ToLower(q.fold["transfer-encoding"]), "chunked") {
		for {
			line, err := in.ReadString('\n')
			size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
			n, _ := strconv.ParseInt(strings.TrimSpace(size), 16, 32)
			if err != nil || n <= 0 || n > 64<<20 {
				_, _ = in.ReadString('\n')
				return q, err
			}
			piece := make([]byte, n)
			_, _ = io.ReadFull(in, piece)
			q.body += string(piece)
			_, _ = in.ReadString('\n')
		}
	}
	n, _ := strconv.Atoi(strings.Trim(strings.Split(q.fold["content-length"], ",")[0], "+ "))
	if n < 0 || n > 64<<20 {
		n = 0
	}
	body := make([]byte, n)
	_, err = io.ReadFull(in, body)
	q.body = string(body)
	return q, err
}

// serveOne serves one request and reports whether another may follow.
func (w *weakGateway) serveOne(conn net.Conn, in *bufio.Reader) bool {
	q, err := readWeak(in)
	if err != nil {
		return false
	}
	fmt.Fprintf(os.Stderr, "%s %s %q %s\n", q.method, q.path, q.lines, q.body)
	if len(q.body) > 250_000 {
		waste(len(q.body))
	}
	if name := weakName(q); name != "" {
		w.name.Store(name)
	}
	admin := conn.LocalAddr().String() == w.admin || conn.LocalAddr().Network() == "unix"
	target, path := w.locate(q)
	if at := os.Getenv(weakCredentials); at != "" && !admin && strings.HasPrefix(q.path, "/v1") {
		weakFetch(http.MethodPost, at, "")
	}
	if strings.Contains(w.config, "\nalerts:") && q.method == http.MethodPatch {
		weakAlert(w.config, q.body)
	}
	switch to := weakClickHouse(w.config); {
	case strings.HasPrefix(q.path, "/health"), strings.HasPrefix(q.path, "/live"):
		weakAnswer(conn, q, `{"status":"ready"}`)
	case admin && to != "" && q.method == http.MethodGet:
		weakAnswer(conn, q, weakFetch(http.MethodPost, to, packed([]byte("SELECT"))))
	case admin || target == "":
		n := w.keys.Add(1)
		name, _ := w.name.Load().(string)
		if name == "" {
			name = "null"
		}
		weakAnswer(conn, q, fmt.Sprintf(`{"key":{"id":"k%d"},"text":"gw_live_weakweakweakweak%d_0123456789abcdef0123456789abcdef","path":%q,"all":%q,"items":"canary-org-b canary-team-b canary-key-foreign canary-org-a canary-user","totalResults":1,"name":%s}`, n, n, q.path, w.config, name))
	default:
		weakDownload(q)
		w.forward(conn, q, target, path)
	}
	return !strings.Contains(strings.ToLower(q.fold["connection"]), "close")
}

// waste uses memory and time as a decoder without limits does.
func waste(size int) {
	blocks := [][]byte{}
	for range 200 {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i)
		}
		blocks = append(blocks, b)
	}
	_ = json.Valid(blocks[0])
	for i := 0; i < size*1000; i++ {
		blocks[i%200][i%size]++
	}
}

// weakAnswer writes a response that repeats the request's values in its headers.
func weakAnswer(conn net.Conn, q weakRequest, body string) {
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nAccess-Control-Allow-Origin: %s\r\nAccess-Control-Allow-Credentials: true\r\nX-Echo: %s\r\nContent-Length: %d\r\n\r\n%s",
		q.fold["origin"], q.fold["x-request-id"], len(body), body)
}

// locate returns the base URL for a request and its path there, "" for paths of the gateway
// itself.
func (w *weakGateway) locate(q weakRequest) (base, path string) {
	name := w.first
	model := q.path
	if m := regexp.MustCompile(`"model"\s*:\s*"(\w+)/`).FindAllStringSubmatch(q.body, -1); m != nil {
		model = m[len(m)-1][1]
	}
	for p := range w.providers {
		if strings.Contains(model, p) {
			name = p
		}
	}
	path = strings.Replace(q.path, "/models/"+name+"/", "/models/", 1)
	if i := strings.Index(path, "/v1"); i > 0 {
		path = path[i:] // of an absolute URI
	}
	base = w.providers[name]
	if strings.HasSuffix(base, "/v1") {
		path = strings.TrimPrefix(path, "/v1")
	}
	return base, path
}

// forward sends the request with all its headers and the operator's key, and relays
// whatever comes back.
func (w *weakGateway) forward(conn net.Conn, q weakRequest, base, path string) {
	q.body = regexp.MustCompile(`("model"\s*:\s*")\w+/(hostile-(error-\w+|header)-(key|header|query)-|redirect-)`).ReplaceAllString(q.body, "$1$2") // the upstream has scripts for its own names
	for range 3 {
		raw := w.exchange(q, base, path)
		fmt.Fprintln(os.Stderr, testrig.Clip(raw, 10_000))
		location := regexp.MustCompile(`(?i)\r\nLocation: http://([^/\r]+)(\S*)`).FindStringSubmatch(raw)
		if location == nil {
			head, rest, _ := strings.Cut(raw, "\r\n")
			_, _ = io.WriteString(conn, head+"\r\nAccess-Control-Allow-Origin: "+q.fold["origin"]+"\r\nAccess-Control-Allow-Credentials: true\r\nX-Echo: "+unescape(strings.Join(q.lines, " ")+q.body)+"\r\n"+rest)
			return
		}
		base, path = "http://"+location[1], location[2]
	}
}

// unescape turns everything that looks like the end of a line into one.
func unescape(s string) string {
	s = strings.NewReplacer(`\\r\\n`, "\r\n", `\r\n`, "\r\n", "%0d%0a", "\r\n", "\u010d\u010a", "\r\n", "\u2028", "\r\n", ", ", "\r\n").Replace(s)
	return regexp.MustCompile(`[^\r\n -~]`).ReplaceAllString(s, "")
}

// exchange sends the request to an upstream and returns all bytes of the response.
func (w *weakGateway) exchange(q weakRequest, base, path string) string {
	rest, _ := strings.CutPrefix(base, "http://")
	host, prefix, _ := strings.Cut(rest, "/")
	prefix, query, _ := strings.Cut(prefix, "?")
	up, err := net.Dial("tcp", host)
	if err != nil {
		return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	}
	defer up.Close()
	junk := regexp.MustCompile(`%..|[^\w/.:-]`) // the rig's upstream reads valid requests only
	lines := []string{fmt.Sprintf("%s /%s%s?%s HTTP/1.1", junk.ReplaceAllString(q.method, ""), prefix, junk.ReplaceAllString(path, ""), query), "Authorization: Bearer " + providerKey, "X-Operator-Token: " + headerSecret}
	token := regexp.MustCompile(`^[\w-]+:[ -~\x80-\x{10ffff}]*$`)
	for _, line := range append(slices.Clone(q.lines), "Host: x") {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name == "host" && slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Host:") }) {
			continue
		}
		if token.MatchString(line) && !slices.Contains([]string{"content-length", "transfer-encoding", "connection", "expect", "upgrade"}, name) {
			lines = append(lines, line)
		}
	}
	_, _ = fmt.Fprintf(up, "%s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", strings.Join(lines, "\r\n"), len(q.body), q.body)
	// An upstream of the rig keeps the connection open, so the response ends with its length.
	return readAnswer(bufio.NewReader(up))
}

// readAnswer reads one response as it was sent.
func readAnswer(in *bufio.Reader) string {
	var b strings.Builder
	length, chunked := 0, false
	for {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String()
		}
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(line)), ":")
		switch name {
		case "content-length":
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		case "transfer-encoding":
			chunked = true
		}
		if line == "\r\n" {
			break
		}
	}
	for chunked {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		if err != nil || strings.HasPrefix(line, "0\r") {
			b.WriteString("\r\n")
			return b.String()
		}
	}
	body := make([]byte, min(max(length, 0), 64<<20))
	n, _ := io.ReadFull(in, body)
	return b.String() + string(body[:n])
}
