package alerts

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// certificate returns a certificate for 127.0.0.1 and its PEM file.
func certificate(t *testing.T) (*tls.Config, string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, file
}

// mailServer is an SMTP server with one account. It accepts mail for example.com.
type mailServer struct {
	address string
	open    bool // to everybody

	mu    sync.Mutex
	mails []received
}

type received struct {
	user, from string
	to         []string
	text       string
}

func startMail(t *testing.T, config *tls.Config, implicit bool, change func(*mailServer, *smtp.Server)) *mailServer {
	t.Helper()
	m := &mailServer{}
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{server: m}, nil }))
	s.TLSConfig, s.Domain, s.ErrorLog = config, "mail.example.com", quiet{}
	if change != nil {
		change(m, s)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	m.address = l.Addr().String()
	if implicit {
		l = tls.NewListener(l, config)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		_ = s.Close()
		done.Wait()
	})
	return m
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func (m *mailServer) all() []received {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mails)
}

type mailSession struct {
	server *mailServer
	now    received
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "isogloss" || password != "CANARY password" {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no " + password}
		}
		s.now.user = user
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if s.now.user == "" && !s.server.open {
		return smtp.ErrAuthRequired
	}
	s.now.from = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if !strings.HasSuffix(to, "@example.com") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "CANARY: no such user"}
	}
	s.now.to = append(s.now.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.now.text = string(text)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.mails = append(s.server.mails, s.now)
	return err
}

func (s *mailSession) Reset()        { s.now = received{user: s.now.user} }
func (s *mailSession) Logout() error { return nil }

// hostileName would add headers, recipients and mentions, where a text is not escaped.
const hostileName = "ci\r\nBcc: evil@example.com\r\n\r\n.\r\nRCPT TO:<evil@example.com> <!channel> & \u202egpj \x1b[2J Grüße"

func aboutBudget() store.Alert {
	return store.Alert{ID: "msg_ABC", Created: time.Now(), Account: "key:k", Name: hostileName, Org: "a", Budget: 2 * usage.Dollar, Window: 24 * time.Hour, Spent: usage.Dollar, Threshold: 50, Tries: 1, Type: store.BudgetPassed}
}

func aboutTargets() store.Alert {
	a := store.Alert{ID: "msg_DEF", Created: time.Now(), Type: TargetDegraded, Detail: store.AlertDetail{Node: "n\r\n1", More: 3}}
	for i := range 20 {
		a.Detail.Conditions = append(a.Detail.Conditions, store.Condition{Subject: fmt.Sprint("openai/m", i, hostileName), Text: strings.Repeat("degraded \n", 1000)})
	}
	return a
}

func mailReceiver(server string) Receiver {
	return Receiver{Kind: "email", Name: "mail", About: topics, Server: server, TLS: "starttls", User: "isogloss", Password: "CANARY password",
		From: "Isogloss Ä <isogloss@example.com>", To: []string{"Ops <ops@example.com>", "people@example.com"}}
}

// sendTo makes one attempt to deliver an alert.
func sendTo(t *testing.T, r Receiver, a store.Alert, timeout time.Duration) error {
	t.Helper()
	s, err := New(Options{Receivers: []Receiver{r}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err = s.send[r.Name](ctx, newMessage(a))
	if err != nil && strings.Contains(err.Error(), "CANARY") {
		t.Errorf("the error has a secret: %v", err)
	}
	return err
}

const patient = time.Minute

// TestMail sends mails to a real server in each of its modes, and reads them.
func TestMail(t *testing.T) {
	config, ca := certificate(t)
	for name, c := range map[string]struct {
		implicit bool
		change   func(*mailServer, *smtp.Server)
		receiver func(*Receiver)
		user     string
	}{
		"STARTTLS and AUTH": {user: "isogloss"},
		"implicit TLS":      {implicit: true, receiver: func(r *Receiver) { r.TLS = "implicit" }, user: "isogloss"},
		"no encryption on this machine": {
			change:   func(m *mailServer, s *smtp.Server) { m.open, s.TLSConfig = true, nil },
			receiver: func(r *Receiver) { r.TLS, r.User, r.Password = "none", "", "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := startMail(t, config, c.implicit, c.change)
			r := mailReceiver(m.address)
			r.CA = ca
			if c.receiver != nil {
				c.receiver(&r)
			}
			for _, a := range []store.Alert{aboutBudget(), aboutTargets()} {
				must(t, sendTo(t, r, a, patient))
			}
			got := m.all()
			if len(got) != 2 {
				t.Fatalf("%d mails", len(got))
			}
			for i, want := range []struct{ subject, text string }{
				{"Isogloss: 50% of a budget of the key ci\ufffd\ufffdBcc: evil@example.com", "$1 of $2 in 1 days are spent"}, {"Isogloss: 23 targets need attention", "and 3 more"},
			} {
				checkMail(t, got[i], c.user, want.subject, want.text)
			}
		})
	}
}

// checkMail reads a mail.
func checkMail(t *testing.T, got received, user, subject, text string) {
	t.Helper()
	if got.user != user || got.from != "isogloss@example.com" || !slices.Equal(got.to, []string{"ops@example.com", "people@example.com"}) {
		t.Errorf("%+v", got)
	}
	for line := range strings.SplitSeq(got.text, "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n\x1b") || !strings.HasPrefix(line, " ") && len(line) > 200 {
			t.Errorf("a line %q", line)
		}
	}
	m, err := mail.ReadMessage(strings.NewReader(got.text))
	must(t, err)
	wantHeader := []string{"Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Received", "Subject", "To"}
	for name := range m.Header {
		if !slices.Contains(wantHeader, name) {
			t.Errorf("a header %s", name)
		}
	}
	decoded, err := (&mime.WordDecoder{}).DecodeHeader(m.Header.Get("Subject"))
	must(t, err)
	if !strings.HasPrefix(decoded, subject) {
		t.Errorf("subject %q, want %q", decoded, subject)
	}
	if id := m.Header.Get("Message-Id"); !strings.HasPrefix(id, "<msg_") || !strings.HasSuffix(id, "@example.com>") {
		t.Error(id)
	}
	body := decodeQuoted(t, m.Body)
	if !strings.Contains(body, text) || strings.ContainsAny(body, "\x1b\u202e") || strings.Contains(body, "\nBcc:") {
		t.Errorf("%q", body)
	}
}

func decodeQuoted(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(quotedprintable.NewReader(r))
	must(t, err)
	return string(text)
}

// TestMailServersThatFail checks that a password is sent to the named server alone, that what a server says is bounded
// and in no error, and that its delays are.
func TestMailServersThatFail(t *testing.T) {
	config, ca := certificate(t)
	good := startMail(t, config, false, nil)
	for name, c := range map[string]struct {
		change func(*Receiver)
		want   string
	}{
		"a wrong password":         {func(r *Receiver) { r.Password = "CANARY wrong" }, "responded to AUTH with 535"},
		"an unknown certificate":   {func(r *Receiver) { r.CA = "" }, "STARTTLS: tls: failed to verify certificate"},
		"no account":               {func(r *Receiver) { r.User, r.Password = "", "" }, "responded to MAIL with 502"},
		"an unknown recipient":     {func(r *Receiver) { r.To = []string{"x@elsewhere.example"} }, "responded to RCPT with 550"},
		"one recipient is unknown": {func(r *Receiver) { r.To = append(r.To, "x@elsewhere.example") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := mailReceiver(good.address)
			r.CA = ca
			c.change(&r)
			before := len(good.all())
			err := sendTo(t, r, aboutBudget(), patient)
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if n := len(good.all()) - before; n != map[bool]int{true: 1}[c.want == ""] {
				t.Errorf("%d mails", n)
			}
		})
	}
	plainServer := startMail(t, nil, false, func(_ *mailServer, s *smtp.Server) { s.AllowInsecureAuth = true })
	if err := sendTo(t, mailReceiver(plainServer.address), aboutBudget(), patient); err == nil || !strings.Contains(err.Error(), "does not offer it") {
		t.Errorf("a server without STARTTLS: %v", err)
	}
	for name, c := range map[string]struct {
		speak   func(net.Conn)
		timeout time.Duration
		want    string
	}{
		"endless greeting": {func(c net.Conn) {
			for _, err := c.Write([]byte("220 ")); err == nil; _, err = c.Write(make([]byte, 1<<16)) {
			}
		}, patient, "closed the connection"}, // the bound ends it as if it were closed
		"endless lines": {func(c net.Conn) {
			for err := error(nil); err == nil; _, err = io.WriteString(c, "220-CANARY\r\n") {
			}
		}, patient, "closed the connection"},
		"silence":  {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, 50 * time.Millisecond, "timeout"},
		"nonsense": {func(c net.Conn) { _, _ = io.WriteString(c, "CANARY\x00\r\n") }, patient, "what is not SMTP"},
		"hang up":  {func(net.Conn) {}, patient, "closed the connection"},
		"injected reply": {func(c net.Conn) {
			_, _ = io.WriteString(c, "220 x\r\n250-x\r\n250 STARTTLS\r\n220 go\r\n250-x\r\n250 AUTH PLAIN\r\n235 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n250 ok\r\n")
			for heard := make([]byte, 1); heard[0] != 0x16; { // the handshake begins
				if _, err := c.Read(heard); err != nil {
					return
				}
			}
		}, patient, "STARTTLS"},
	} {
		t.Run(name, func(t *testing.T) {
			address := speak(t, c.speak)
			if err := sendTo(t, mailReceiver(address), aboutBudget(), c.timeout); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// speak starts a server that says something on each connection, whatever it hears.
func speak(t *testing.T, say func(net.Conn)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				say(c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		done.Wait()
	})
	return l.Addr().String()
}

// newSlack is an incoming webhook. It refuses what Slack refuses.
func newSlack(t *testing.T, got func(text string)) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/services/T0/B0/CANARY" {
			http.Error(w, "no_service", http.StatusNotFound)
			return
		}
		var m struct {
			Text        string `json:"text"`
			Mrkdwn      *bool  `json:"mrkdwn"`
			UnfurlLinks bool   `json:"unfurl_links"`
			UnfurlMedia bool   `json:"unfurl_media"`
		}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "invalid_payload", http.StatusBadRequest)
			return
		}
		if m.Text == "" || len(m.Text) > 40_000 {
			http.Error(w, "no_text", http.StatusBadRequest)
			return
		}
		if strings.ContainsAny(m.Text, "<>") || m.Mrkdwn == nil || *m.Mrkdwn {
			t.Errorf("Slack reads links or mentions in %q", m.Text)
		}
		got(m.Text)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s
}

// TestSlack checks the form of messages, and what names may do in them.
func TestSlack(t *testing.T) {
	var texts []string
	s := newSlack(t, func(text string) { texts = append(texts, text) })
	r := Receiver{Kind: "slack", Name: "slack", About: topics, URL: secret.String(s.URL + "/services/T0/B0/CANARY")}
	for _, a := range []store.Alert{aboutBudget(), aboutTargets()} {
		must(t, sendTo(t, r, a, patient))
	}
	for i, want := range []string{"Isogloss: 50% of a budget of the key ci", "Isogloss: 23 targets need attention\nopenai/m0ci"} {
		if !strings.HasPrefix(texts[i], want) || !strings.Contains(texts[i], "&lt;!channel&gt; &amp; ") || strings.ContainsAny(texts[i], "\r\x1b\u202e") {
			t.Errorf("%q", texts[i])
		}
	}
	r.URL = secret.String(s.URL + "/services/T0/B0/CANARY-2")
	if err := sendTo(t, r, aboutBudget(), patient); err == nil || !strings.Contains(err.Error(), "responded with 404") {
		t.Error(err)
	}
}

// TestReceiversDoNotWait lets one receiver hang while another one gets all alerts, and renames the one that hangs.
func TestReceiversDoNotWait(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "isogloss.db")
	openFor := func(names ...string) *store.Store {
		s, err := store.Open(t.Context(), address, store.Options{Migrate: true, Alerts: store.AlertRules{Receivers: map[string][]string{"target": names}}})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s
	}
	s := openFor("slack", "hook")
	const all = 5
	for i := range all {
		must(t, s.RaiseConditions(t.Context(), TargetDegraded, "n", []store.Condition{{Subject: fmt.Sprint("openai/m", i), Text: "degraded"}}, time.Hour))
	}
	var mu sync.Mutex
	var texts []string
	chat := newSlack(t, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		texts = append(texts, text)
	})
	hung := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	receivers := []Receiver{
		{Kind: "slack", Name: "slack", URL: secret.String(chat.URL + "/services/T0/B0/CANARY")},
		{Kind: "webhook", Name: "hook", URL: secret.String(hung.URL + "/CANARY"), Secret: key},
	}
	change := func(o *Options) { o.Receivers, o.Adopt = receivers, time.Millisecond }
	log := &testrig.Log{}
	o := Options{Store: s, Logger: slog.New(slog.NewTextHandler(log, nil)), Poll: 5 * time.Millisecond, Lease: time.Second}
	change(&o)
	stop := start(t, o)
	waitFor(t, "Slack has all alerts", func() bool { mu.Lock(); defer mu.Unlock(); return len(texts) == all })
	waitFor(t, "the other one was tried", func() bool { _, _, tries := hung.count(); return tries == 1 })
	stop()

	// The address is the same for a while, and then has another name.
	good := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	receivers[1] = Receiver{Kind: "webhook", Name: "on-call", URL: secret.String(good.URL + "/CANARY"), Secret: key}
	o.Store = openFor("slack", "on-call")
	change(&o)
	start(t, o)
	waitFor(t, "the new name has all alerts", func() bool { n, _, _ := good.count(); return n == all })
	mu.Lock()
	defer mu.Unlock()
	if len(texts) != all {
		t.Errorf("Slack has %d alerts", len(texts))
	}
	if strings.Contains(log.String(), "CANARY") || !strings.Contains(log.String(), "go to the others") {
		t.Error(log)
	}
}

// start runs a Sender until the end of the test, or until stop is called.
func start(t *testing.T, o Options) (stop func()) {
	t.Helper()
	s, err := New(o)
	must(t, err)
	ctx, end := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { s.Run(ctx) })
	stop = func() {
		end()
		done.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// conditions is a store that may be down.
type conditions struct {
	down  bool
	calls []string
}

func (c *conditions) RaiseConditions(_ context.Context, kind, _ string, found []store.Condition, _ time.Duration) error {
	if c.down {
		return errors.New("down")
	}
	c.calls = append(c.calls, fmt.Sprint(kind, " ", len(found)))
	return nil
}

// TestWatch looks at conditions that come, stay and go, with and without a store.
func TestWatch(t *testing.T) {
	var sent []string
	chat := newSlack(t, func(text string) { sent = append(sent, text) })
	sender, err := New(Options{Receivers: []Receiver{{Kind: "slack", Name: "slack", About: topics, URL: secret.String(chat.URL + "/services/T0/B0/CANARY")}}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	to, state, keys := &conditions{}, []store.Condition(nil), 0
	w := &Watch{Store: to, Sender: sender, Node: "n", Finders: []Finder{
		{StoreLags, func(context.Context) ([]store.Condition, error) { return state, nil }},
		{KeyExpires, func(context.Context) ([]store.Condition, error) {
			keys++
			return []store.Condition{{Subject: "key k", Text: "expires"}}, nil
		}},
	}}
	now := time.Now()
	at := func(after time.Duration, want ...string) {
		t.Helper()
		to.calls = nil
		w.look(t.Context(), now.Add(after))
		if !slices.Equal(to.calls, want) {
			t.Errorf("after %s: %q, want %q", after, to.calls, want)
		}
	}
	at(0, "key.expires 1")
	state = []store.Condition{{Subject: "the ledger", Text: "lags"}}
	at(look) // for the first time
	at(2*look, "store.lags 1")
	state = nil
	at(3 * look)
	state = []store.Condition{{Subject: "the ledger", Text: "lags"}}
	at(4 * look)
	to.down = true
	at(5 * look)
	at(6 * look)
	if len(sent) != 1 || !strings.Contains(sent[0], "the ledger: lags") {
		t.Fatalf("sent without a store: %q", sent)
	}
	at(6*look + lasting/2)
	at(6*look + lasting + lasting/4) // it has lasted
	if len(sent) != 1 {
		t.Errorf("sent again: %q", sent)
	}
	at(6*look + 3*lasting)
	if len(sent) != 2 || keys < 3 {
		t.Errorf("after two hours without it: %q; keys were looked at %d times", sent, keys)
	}
}
