package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// mention is a key's name that mentions everybody and links, where Slack reads it as markup.
const mention = "<!channel> <https://evil.example|pay here>"

// mostAlert is the most that a receiver may make the gateway read, with the buffers of the connection.
const mostAlert = 8 << 20

// alertServers are receivers of alerts that attack the gateway.
type alertServers struct {
	http *httptest.Server
	mail net.Listener
	sent atomic.Int64 // bytes of an answer without an end

	mu   sync.Mutex
	got  map[string]string // all bytes by receiver
	open sync.WaitGroup
}

func newAlertServers() *alertServers {
	a := &alertServers{got: map[string]string{}, mail: testrig.Must(net.Listen("tcp", "127.0.0.1:0"))}
	a.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name := strings.Split(r.URL.Path, "/")[1]
		a.note(name, r.URL.String()+"\n"+string(body))
		switch name {
		case "redirect":
			http.Redirect(w, r, a.http.URL+"/elsewhere/", http.StatusTemporaryRedirect)
		case "endless":
			for r.Context().Err() == nil && a.more(w) == nil {
				continue
			}
		}
	}))
	a.open.Go(func() {
		for {
			conn, err := a.mail.Accept()
			if err != nil {
				return
			}
			a.open.Go(func() { a.serveMail(conn) })
		}
	})
	return a
}

// serveMail offers no encryption, and says more than anybody wants to hear.
func (a *alertServers) serveMail(conn net.Conn) {
	defer conn.Close()
	a.note("mail", "connected")
	_, _ = io.WriteString(conn, "220 mail\r\n250-mail\r\n250 AUTH PLAIN LOGIN\r\n235 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n250 ok\r\n")
	heard := make([]byte, 4096)
	n, _ := io.ReadAtLeast(conn, heard, len("EHLO x\r\nQ"))
	a.note("mail", string(heard[:n]))
	for a.more(conn) == nil {
		continue
	}
}

// more sends more of an answer without an end.
func (a *alertServers) more(w io.Writer) error {
	n, err := w.Write([]byte(strings.Repeat("250-and so on\r\n", 4096)))
	if a.sent.Add(int64(n)) > 2*mostAlert {
		return io.EOF
	}
	return err
}

func (a *alertServers) note(receiver, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got[receiver] += text + "\n"
}

// heard returns what a receiver has got so far.
func (a *alertServers) heard(receiver string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.got[receiver]
}

func (a *alertServers) close() {
	a.http.CloseClientConnections()
	a.http.Close()
	_ = a.mail.Close()
	a.open.Wait()
}

// alertConfig has a receiver of each kind, whose address or password is secret.
func alertConfig(r *rig) *config {
	r.alerts = newAlertServers()
	c := priced(tenantStore(r))
	c.top = append(c.top, "alerts:", "  thresholds: [1]", "  to:")
	for _, name := range []string{"redirect", "endless", "slack"} {
		kind, secret := "webhook", ", secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
		if name == "slack" {
			kind, secret = name, ""
		}
		c.top = append(c.top, fmt.Sprintf("    - { kind: %s, name: %s, url: %q%s }", kind, name, r.alerts.http.URL+"/"+name+"/"+querySecret, secret))
	}
	c.top = append(c.top, fmt.Sprintf("    - { kind: email, server: %q, user: ops, password: %q, from: a@example.com, to: [b@example.com] }", r.alerts.mail.Addr(), headerSecret))
	c.keys = append(c.keys, keySpec{name: "loud", body: `"org":"a","models":["*"],"limits":{"budget":"0.001","window_seconds":0}`})
	return c
}

// alertAttacks are those of the receivers of alerts, and of who may name what alerts are about.
func alertAttacks() (all []attack) {
	for name, judge := range map[string]func(r *rig, e *evidence){
		"slack/mention": func(r *rig, e *evidence) {
			text := r.alerts.heard("slack")
			e.problem(strings.Contains(text, "<!channel>") || strings.Contains(text, `\u003c!channel`) || strings.Contains(text, "<https://evil"), "Slack gets %q", testrig.Clip(text, 300))
		},
		"webhook/redirect": func(r *rig, e *evidence) {
			e.problem(r.alerts.heard("elsewhere") != "", "the gateway followed the redirect")
		},
		"webhook/endless": func(r *rig, e *evidence) {
			e.problem(r.alerts.sent.Load() > mostAlert, "%d bytes of answers without an end were read", r.alerts.sent.Load())
		},
		"mail/unencrypted": func(r *rig, e *evidence) {
			text := r.alerts.heard("mail")
			e.problem(strings.Contains(text, "AUTH") || strings.Contains(text, "MAIL"), "the server, which offers no encryption, got %q", text)
		},
	} {
		all = append(all, attack{name: "alerts/" + name, do: func(ctx context.Context, r *rig) *evidence {
			e := r.alarm(ctx)
			judge(r, e)
			return e
		}, holds: []oracle{logsNoSecret}})
	}
	return all
}

// alarm has each receiver get an alert, once.
func (r *rig) alarm(ctx context.Context) (e *evidence) {
	e = &evidence{sent: "an alert about a key with the name " + mention}
	r.alarmed.Do(func() {
		r.admin(ctx, "PATCH", "/api/v1/keys/"+r.ids["loud"], fmt.Sprintf(`{"name":%q}`, mention))
		q := testrig.Query{Model: "chat/m", Prompt: "hi", MaxTokens: 20}
		r.send(ctx, request{path: testrig.Chat.Path(q.Model, false), body: testrig.Chat.Body(q), key: "loud"})
	})
	testrig.NoError(testrig.Until(ctx, patience, "a receiver has got no alert", func() bool {
		for _, name := range []string{"redirect", "endless", "slack", "mail"} {
			if r.alerts.heard(name) == "" {
				return false
			}
		}
		return strings.Count(r.alerts.heard("mail"), "\n") > 1 && (r.weak || strings.Count(r.gateway.Log(), "alert not delivered") >= 2)
	}))
	return e
}

// weakAlert sends a text to every receiver of a configuration, with the secrets, and believes what they answer.
func weakAlert(config, text string) {
	for line := range strings.SplitSeq(config, "\n") {
		_, address, found := strings.Cut(line, `url: "`)
		if address, _, _ = strings.Cut(address, `"`); found && strings.Contains(line, "kind: ") {
			weakFetch(http.MethodPost, address, text)
		}
		_, server, found := strings.Cut(line, `server: "`)
		server, _, _ = strings.Cut(server, `"`)
		if !found {
			continue
		}
		conn, err := net.Dial("tcp", server)
		if err != nil {
			continue
		}
		_, _ = fmt.Fprintf(conn, "EHLO x\r\nAUTH PLAIN %s\r\nMAIL FROM:<a@example.com>\r\n", base64.StdEncoding.EncodeToString([]byte("\x00ops\x00"+headerSecret)))
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 2*mostAlert))
		_ = conn.Close()
	}
}
