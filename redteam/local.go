package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Variables that make this program listen on a socket, or send a request over one. Attacks start it as another user.
const (
	listenVariable = "REDTEAM_LISTEN"
	askVariable    = "REDTEAM_ASK"
)

// nobody is a user of the machine without rights.
const nobody = 65534

// otherUser reports whether attacks can be made as another user.
func otherUser() bool { return os.Geteuid() == 0 }

// localMain does what the environment of another user's process says. It reports whether that was anything.
func localMain() bool {
	if name := os.Getenv(listenVariable); name != "" {
		l, err := net.Listen("unix", name)
		fmt.Fprintln(os.Stdout, "listening", err)
		for err == nil {
			var c net.Conn
			if c, err = l.Accept(); err == nil {
				go func() {
					text := make([]byte, 1000)
					n, _ := c.Read(text) // of a command that may leave
					if n > 0 {
						fmt.Fprintf(os.Stdout, "asked %q\n", text[:n])
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n"+fmt.Sprintf("%-300s", `{"address":"evil","configuration":"/x","pid":7,"items":[]}`))
					_ = c.Close()
				}()
			}
		}
		return true
	}
	if name := os.Getenv(askVariable); name != "" {
		c, err := net.Dial("unix", name)
		if err != nil {
			fmt.Fprintln(os.Stdout, "refused:", err)
			return true
		}
		fmt.Fprintf(c, "GET /gateway HTTP/1.1\r\nHost: x\r\n\r\nGET /api/v1/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(os.Stdout, io.LimitReader(c, 1<<20)) // what there is
		return true
	}
	return false
}

// another starts this program as another user.
func another(ctx context.Context, variable, value string) *exec.Cmd {
	// The binary may be in a folder that only its owner can enter.
	self := filepath.Join(testrig.Must(os.MkdirTemp("", "rt")), "redteam")
	text := testrig.Must(os.ReadFile(testrig.Must(os.Executable())))
	testrig.NoError(errors.Join(os.Chmod(filepath.Dir(self), 0o755), os.WriteFile(self, text, 0o755)))
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = []string{variable + "=" + value}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// listener listens on a socket as another user until end is called, which returns what it was asked.
func listener(ctx context.Context, socket string) (end func() string) {
	ctx, stop := context.WithCancel(ctx)
	cmd := another(ctx, listenVariable, socket)
	out := testrig.Must(cmd.StdoutPipe())
	testrig.NoError(cmd.Start())
	in := bufio.NewReader(out)
	first, err := in.ReadString('\n')
	if err != nil || !strings.Contains(first, "<nil>") {
		stop()
		testrig.NoError(fmt.Errorf("another user cannot listen: %s %w", first, err))
	}
	return func() string {
		stop()
		rest, _ := io.ReadAll(in)                // to the end of the process
		_ = cmd.Wait()                           // it was killed
		_ = os.RemoveAll(filepath.Dir(cmd.Path)) // the copy
		return string(rest)
	}
}

// place is where a gateway would have its socket.
type place struct {
	dir    string // of the machine's temporary files: everybody may enter it
	folder string // of the socket
	socket string
	mine   string // a folder of the attacker
}

// newPlace returns the place of a gateway on an address. Its folder does not exist.
func newPlace(address string) *place {
	p := &place{dir: testrig.Must(os.MkdirTemp("", "rt"))}
	p.folder, p.mine = filepath.Join(p.dir, "isogloss"), filepath.Join(p.dir, "attacker")
	p.socket = filepath.Join(p.folder, address+".sock")
	testrig.NoError(errors.Join(os.Chmod(p.dir, 0o755), os.Mkdir(p.mine, 0o777), os.Chmod(p.mine, 0o777)))
	return p
}

func (p *place) close() { _ = os.RemoveAll(p.dir) }

// own makes the folder as a gateway does.
func (p *place) own() error { return os.Mkdir(p.folder, 0o700) }

// prepared are places that an attacker has prepared before the gateway starts.
func prepared() map[string]func(ctx context.Context, p *place) error {
	victim := func(p *place) string { return filepath.Join(p.mine, "victim") }
	all := map[string]func(ctx context.Context, p *place) error{
		"folder/open":     func(_ context.Context, p *place) error { return errors.Join(p.own(), os.Chmod(p.folder, 0o777)) },
		"folder/group":    func(_ context.Context, p *place) error { return errors.Join(p.own(), os.Chmod(p.folder, 0o770)) },
		"folder/readable": func(_ context.Context, p *place) error { return errors.Join(p.own(), os.Chmod(p.folder, 0o755)) },
		"folder/sticky": func(_ context.Context, p *place) error {
			return errors.Join(p.own(), os.Chmod(p.folder, 0o777|os.ModeSticky))
		},
		"folder/link":          func(_ context.Context, p *place) error { return os.Symlink(p.mine, p.folder) },
		"folder/link-relative": func(_ context.Context, p *place) error { return os.Symlink("attacker", p.folder) },
		"folder/link-loop":     func(_ context.Context, p *place) error { return os.Symlink("isogloss", p.folder) },
		"folder/link-nowhere":  func(_ context.Context, p *place) error { return os.Symlink(filepath.Join(p.mine, "new"), p.folder) },
		"folder/file":          func(_ context.Context, p *place) error { return os.WriteFile(p.folder, nil, 0o666) },
		"folder/pipe":          func(_ context.Context, p *place) error { return syscall.Mkfifo(p.folder, 0o666) },
		"socket/file": func(_ context.Context, p *place) error {
			return errors.Join(p.own(), os.WriteFile(p.socket, []byte("victim"), 0o666))
		},
		"socket/link": func(_ context.Context, p *place) error {
			return errors.Join(p.own(), os.WriteFile(victim(p), []byte("victim"), 0o666), os.Symlink(victim(p), p.socket))
		},
		"socket/link-nowhere": func(_ context.Context, p *place) error {
			return errors.Join(p.own(), os.Symlink(filepath.Join(p.mine, "new"), p.socket))
		},
		"socket/pipe":   func(_ context.Context, p *place) error { return errors.Join(p.own(), syscall.Mkfifo(p.socket, 0o666)) },
		"socket/folder": func(_ context.Context, p *place) error { return errors.Join(p.own(), os.Mkdir(p.socket, 0o777)) },
	}
	if otherUser() {
		all["folder/other-user"] = func(_ context.Context, p *place) error {
			return errors.Join(p.own(), os.Chown(p.folder, nobody, nobody))
		}
		all["socket/other-user"] = func(ctx context.Context, p *place) error {
			err := errors.Join(p.own(), os.Chmod(p.folder, 0o777))
			end := listener(ctx, p.socket)
			context.AfterFunc(ctx, func() { end() })
			return errors.Join(err, os.Chmod(p.folder, 0o700)) // as if it had always been so
		}
	}
	return all
}

// placeAttacks prepare the place of a gateway's socket. The gateway makes none there, or one that only its user can open, and
// changes nothing of the attacker's.
func placeAttacks() (all []attack) {
	list := prepared()
	for _, name := range slices.Sorted(maps.Keys(list)) {
		do := func(ctx context.Context, r *rig) *evidence {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			g := testrig.Must(testrig.NewGateway(r.bin, "", "gateway"))
			defer g.Close()
			p := newPlace(strings.TrimPrefix(g.URL, "http://"))
			defer p.close()
			testrig.NoError(list[name](ctx, p))
			before, _ := os.Lstat(p.socket)
			g.Env = append(g.Env, "XDG_RUNTIME_DIR="+p.dir)
			if r.weak {
				g.Env = append(g.Env, weakVariable+"=1")
			}
			testrig.NoError(errors.Join(g.Configure("log: { format: json }\nproviders:\n  chat: { protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\" }\nmodels:\n  m: { targets: [chat/m] }\n"), g.Start(ctx)))
			e := &evidence{sent: "start with " + name}
			testrig.NoError(testrig.Until(ctx, patience, "the gateway says nothing of its socket", func() bool {
				return r.weak || strings.Contains(g.Log(), "will not find this gateway")
			}))
			after, err := os.Lstat(p.socket)
			e.problem(err == nil && before == nil, "there is a socket %s", p.socket)
			e.problem(before != nil && (err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode()), "what was in the place of the socket was replaced")
			files, _ := os.ReadDir(p.mine) // it exists
			for _, f := range files {
				text, _ := os.ReadFile(filepath.Join(p.mine, f.Name())) // a socket has no text
				e.problem(f.Name() != "victim" || string(text) != "victim", "the gateway has written %s in the attacker's folder", f.Name())
			}
			e.got = g.Log()
			return e
		}
		all = append(all, attack{name: "local/place/" + name, do: do})
	}
	return all
}

// commands are those that use the socket of a running gateway.
var commands = map[string][]string{
	"list": {"keys", "list"}, "show": {"keys", "show", "x"}, "usage": {"keys", "usage"}, "revoke": {"keys", "revoke", "x"}, "capture": {"capture", "--all", "--for", "20s", "--count", "1"},
}

// runCommand runs a command that looks for gateways in a folder, and returns what it printed.
func (r *rig) runCommand(ctx context.Context, env []string, args ...string) *evidence {
	home := testrig.Must(os.MkdirTemp("", "rt"))
	defer os.RemoveAll(home)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, testrig.Must(filepath.Abs(r.bin)), args...)
	cmd.Dir, cmd.Env = home, append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...)
	if r.weak {
		cmd.Env = append(cmd.Env, weakVariable+"=1")
	}
	out, err := cmd.CombinedOutput()
	e := &evidence{sent: strings.Join(args, " "), got: string(out)}
	if err == nil {
		e.status = 200
	}
	e.problem(ctx.Err() != nil, "the command does not end")
	e.problem(strings.Contains(e.got, "panic:") || strings.Contains(e.got, "goroutine "), "the command panics")
	return e
}

// impostorAttacks listen in the place of a gateway as another user. No command sends a byte there.
func impostorAttacks() (all []attack) {
	if !otherUser() {
		return nil
	}
	places := map[string]struct {
		env     func(p *place) string
		prepare func(p *place) (socket string, err error)
		seal    func(p *place) error
	}{
		"own-folder": {func(p *place) string { return "XDG_RUNTIME_DIR=" + p.dir }, func(p *place) (string, error) { return p.socket, errors.Join(p.own(), os.Chmod(p.folder, 0o777)) },
			func(p *place) error { return os.Chmod(p.folder, 0o700) }},
		"open-folder": {func(p *place) string { return "XDG_RUNTIME_DIR=" + p.dir }, func(p *place) (string, error) { return p.socket, errors.Join(p.own(), os.Chmod(p.folder, 0o777)) }, nil},
		"linked-folder": {func(p *place) string { return "XDG_RUNTIME_DIR=" + p.dir }, func(p *place) (string, error) {
			return filepath.Join(p.mine, "127.0.0.1:1.sock"), os.Symlink(p.mine, p.folder)
		}, nil},
		"linked-socket": {func(p *place) string { return "XDG_RUNTIME_DIR=" + p.dir }, func(p *place) (string, error) {
			at := filepath.Join(p.mine, "s")
			return at, errors.Join(p.own(), os.Symlink(at, p.socket))
		}, nil},
		"temporary-folder": {func(p *place) string { return "TMPDIR=" + p.dir }, func(p *place) (string, error) { // of a user who runs a gateway
			folder := filepath.Join(p.dir, fmt.Sprint("isogloss-", nobody))
			return filepath.Join(folder, "127.0.0.1:1.sock"), errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, nobody, nobody))
		}, nil},
	}
	for where, at := range places {
		for name, args := range commands {
			do := func(ctx context.Context, r *rig) *evidence {
				p := newPlace("127.0.0.1:1")
				defer p.close()
				socket, err := at.prepare(p)
				testrig.NoError(err)
				end := listener(ctx, socket)
				if at.seal != nil {
					testrig.NoError(at.seal(p))
				}
				e := r.runCommand(ctx, []string{at.env(p), "TMPDIR=" + p.dir}, args...)
				asked := end()
				e.problem(asked != "", "another user's program was asked: %s", testrig.Clip(asked, 300))
				return e
			}
			all = append(all, attack{name: "local/impostor/" + where + "/" + name, do: do})
		}
	}
	return all
}

// socketServer listens in the place of a gateway, as its own user.
func socketServer(p *place, h http.Handler) (stop func()) {
	testrig.NoError(p.own())
	l := testrig.Must(net.Listen("unix", p.socket))
	s := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // until Close
	return func() { _ = s.Close(); <-done }
}

// socketAnswers have a program in the place of the gateway answer as a terminal obeys, and without end: root may use the gateway of
// another user.
func socketAnswers() (all []attack) {
	const honest = `{"configuration":"/x.yaml","address":"127.0.0.1:1","data":"/d","store":"sqlite:/d/x","node":"gw","version":"v1","pid":7}`
	serve := func(identity, answer http.HandlerFunc, args []string, sent *atomic.Int64) func(ctx context.Context, r *rig) *evidence {
		return func(ctx context.Context, r *rig) *evidence {
			p := newPlace("127.0.0.1:1")
			defer p.close()
			stop := socketServer(p, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/gateway" {
					identity(w, q)
				} else {
					answer(w, q)
				}
			}))
			defer stop()
			e := r.runCommand(ctx, []string{"XDG_RUNTIME_DIR=" + p.dir, "TMPDIR=" + p.dir}, args...)
			found := obeyed(e.got)
			e.problem(found != "", "the command prints %s", found)
			e.problem(strings.Contains(e.got, lineBreak), "the command prints a line of the program")
			e.problem(sent != nil && sent.Load() > hostile.Bounded, "%d bytes were read", sent)
			return e
		}
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) } // to a command that may have ended
	}
	for name, shown := range terminalTexts {
		quoted := testrig.Quote(shown)
		bad := strings.NewReplacer(`"127.0.0.1:1"`, quoted, `"/x.yaml"`, quoted, `"sqlite:/d/x"`, quoted).Replace(honest)
		key := strings.ReplaceAll(`{"items":[{"id":X,"name":X,"org":X,"team":X,"state":X,"models":[X]}],"id":X,"name":X,"state":X,"sums":[{"key":X,"model":X,"cost":X}],"total":{"refused":1},"refusals":[{"key":X,"reason":X}]}`, "X", quoted)
		failing := func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"status":409,"code":`+quoted+`,"detail":`+quoted+`}`)
		}
		for _, command := range []string{"list", "usage", "capture"} {
			all = append(all, attack{name: "local/shown/identity/" + command + "/" + name, do: serve(text(bad), failing, commands[command], nil)},
				attack{name: "local/shown/keys/" + command + "/" + name, do: serve(text(honest), text(key), commands[command], nil)})
		}
	}
	for _, a := range hostile.Answers(honest, "http://127.0.0.1:1") {
		if !strings.HasPrefix(a.Name, "endless") || strings.Contains(a.Name, "packed") {
			continue
		}
		for command, args := range commands {
			h := hostile.New()
			h.Answer = a
			all = append(all, attack{name: "local/answer/identity/" + a.Name + "/" + command, do: serve(h.ServeHTTP, text("{}"), args, &h.Sent)})
			k := hostile.New()
			k.Answer = a
			all = append(all, attack{name: "local/answer/keys/" + a.Name + "/" + command, do: serve(text(honest), k.ServeHTTP, args, &k.Sent)})
		}
	}
	return all
}

// localRig starts a gateway with a socket.
func localRig(ctx context.Context, o options) (*rig, error) {
	var p *place
	if err := testrig.Run(func() { p = newPlace("") }); err != nil {
		return nil, err
	}
	r, err := start(func(r *rig) *config {
		c := tenantStore(r)
		c.env = append(c.env, "XDG_RUNTIME_DIR="+p.dir)
		return c
	})(ctx, o)
	if err != nil {
		p.close()
		return nil, err
	}
	r.local = p
	p.socket = filepath.Join(p.folder, r.address(false)+".sock")
	return r, nil
}

// dialLocal connects to the gateway's socket.
func (r *rig) dialLocal() net.Conn {
	return testrig.Must(net.Dial("unix", r.local.socket))
}

// socketAttacks send the gateway's socket what no command sends. Afterwards a command is served.
func socketAttacks() (all []attack) {
	after := func(ctx context.Context, r *rig, e *evidence) *evidence {
		got := r.runCommand(ctx, []string{"XDG_RUNTIME_DIR=" + r.local.dir, "TMPDIR=" + r.local.dir}, "keys", "list", "--json")
		e.problem(!strings.Contains(got.got, r.ids["full"]), "a command is not served: %s", testrig.Clip(got.got, 300))
		return e
	}
	const key = `{"name":"n","models":["*"]}`
	endless := map[string][2]string{
		"line": {"", "G"}, "path": {"GET /", "x"}, "header": {"GET /gateway HTTP/1.1\r\nHost: x\r\nA: ", "x"}, "headers": {"GET /gateway HTTP/1.1\r\nHost: x\r\n", "A: b\r\n"},
		"body": {"POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9223372036854775807\r\n\r\n", " "}, "chunks": {"POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n"},
		"extension": {"POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x"}, "capture": {"POST /capture HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\n", " "},
		"unknown": {"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\n", " "}, "text": {`{"name":"` + "POST /api/v1/keys", "x"},
	}
	for name, text := range endless {
		do := func(ctx context.Context, r *rig) *evidence {
			before := testrig.ProcessMemory(r.gateway.PID(), "VmHWM")
			c := r.dialLocal()
			defer c.Close()
			e := &evidence{sent: text[0] + text[1] + " …"}
			testrig.NoError(c.SetDeadline(time.Now().Add(patience)))
			n, err := io.WriteString(c, text[0])
			piece := strings.Repeat(text[1], 64<<10/len(text[1]))
			for n < 256<<20 && err == nil {
				var m int
				m, err = io.WriteString(c, piece)
				n += m
			}
			e.problem(err == nil, "%d bytes were read", n)
			e.problem(errors.Is(err, os.ErrDeadlineExceeded), "the connection is open after %v", patience)
			grown := testrig.ProcessMemory(r.gateway.PID(), "VmHWM") - before
			e.figure(grown > 64<<20, "memory has grown by %.0f MB", grown/1e6)
			return after(ctx, r, e)
		}
		all = append(all, attack{name: "local/endless/" + name, do: do})
	}
	for name, text := range map[string]string{
		"two-lengths": "POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\nContent-Length: 27\r\n\r\n" + key,
		"both":        "POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 27\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"no-host":     "GET /api/v1/keys HTTP/1.1\r\n\r\n", "form": "POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 27\r\n\r\n" + key,
		"page":    "POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n" + key,
		"connect": "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", "absolute": "GET http://evil.example/latest/meta-data HTTP/1.1\r\nHost: evil.example\r\n\r\n", "inference": "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "dots": "GET /gateway/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "pprof": "GET /debug/pprof/heap HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		do := func(ctx context.Context, r *rig) *evidence {
			c := r.dialLocal()
			defer c.Close()
			testrig.NoError(c.SetDeadline(time.Now().Add(patience)))
			_, _ = io.WriteString(c, text) // the gateway may close the connection
			got := make([]byte, 64<<10)
			n, _ := c.Read(got) // the first response
			e := &evidence{sent: text}
			e.read(string(got[:n]))
			return after(ctx, r, e)
		}
		all = append(all, attack{name: "local/request/" + name, do: do, holds: []oracle{refuses(400, 403, 404, 405, 415, 422, 301, 307, 308)}})
	}
	crowd := func(ctx context.Context, r *rig) *evidence {
		var open []net.Conn
		for range 100 { // those that the gateway does not accept yet wait
			c := r.dialLocal()
			open = append(open, c)
			_, _ = io.WriteString(c, "POST /api/v1/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		}
		for _, c := range open {
			_ = c.Close()
		}
		return after(ctx, r, &evidence{sent: "100 connections with half a request"})
	}
	all = append(all, attack{name: "local/crowd", do: crowd})
	for port, admin := range map[string]bool{"client": false, "admin": true} { // the socket's rights at a port
		for name, headers := range map[string][]string{"plain": nil, "forwarded": {"X-Forwarded-For", "@", "X-Real-IP", "@", "Forwarded", "for=local"}, "uid": {"X-Local-UID", "0", "UID", "0", "X-Remote-User", "root", "Remote-User", "local:0"}, "host": {"Host", "localhost"}, "actor": {"Authorization", "local:0"}} {
			for _, path := range []string{"/gateway", "/capture", "/api/v1/keys"} {
				method := map[string]string{"/capture": "POST"}[path]
				if method == "" {
					method = "GET"
				}
				q := request{method: method, path: path, headers: headers, admin: admin}
				all = append(all, attack{name: "local/port/" + port + path + "/" + name, do: sends(q), holds: []oracle{refuses(400, 401, 403, 404, 405, 421)}})
			}
		}
	}
	if otherUser() {
		strange := func(ctx context.Context, r *rig) *evidence {
			testrig.NoError(errors.Join(os.Chmod(r.local.folder, 0o755), os.Chmod(r.local.socket, 0o666))) // as after a careless operator
			defer func() { testrig.NoError(errors.Join(os.Chmod(r.local.folder, 0o700), os.Chmod(r.local.socket, 0o600))) }()
			cmd := another(ctx, askVariable, r.local.socket)
			defer os.RemoveAll(filepath.Dir(cmd.Path))
			out, err := cmd.CombinedOutput()
			testrig.NoError(err)
			e := &evidence{sent: "GET /gateway and /api/v1/keys as another user"}
			e.read(string(out))
			return e
		}
		all = append(all, attack{name: "local/other-user/open-permissions", do: strange, holds: []oracle{refuses(403), lacks("canary-key", "configuration")}})
		shut := func(ctx context.Context, r *rig) *evidence {
			cmd := another(ctx, askVariable, r.local.socket)
			defer os.RemoveAll(filepath.Dir(cmd.Path))
			out, err := cmd.CombinedOutput()
			testrig.NoError(err)
			e := &evidence{sent: "connect as another user", got: string(out)}
			e.problem(!strings.HasPrefix(e.got, "refused:"), "another user has connected")
			return e
		}
		all = append(all, attack{name: "local/other-user/closed", do: shut})
	}
	return all
}
