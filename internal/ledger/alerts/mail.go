package alerts

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// mailer sends alerts as mails to one server.
type mailer struct {
	server, host string // with and without the port
	encrypted    string // starttls, implicit or none
	tls          *tls.Config
	user         string
	password     secret.String
	from         *mail.Address
	to           []*mail.Address
	hello        string // the name of this machine
}

func newMailer(r Receiver) (*mailer, error) {
	m := &mailer{server: r.Server, encrypted: r.TLS, user: r.User, password: r.Password, hello: "localhost"}
	m.host, _, _ = net.SplitHostPort(r.Server) // Check has seen it
	m.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: m.host}
	var err error
	if r.CA != "" {
		if m.tls.RootCAs, err = readPool(r.CA); err != nil {
			return nil, fmt.Errorf("alerts.to: ca: %w; write a PEM file of certificates", err)
		}
	}
	if m.from, err = mail.ParseAddress(r.From); err != nil {
		return nil, fmt.Errorf("alerts.to: from: %w", err)
	}
	for _, text := range r.To {
		to, err := mail.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("alerts.to: to: %w", err)
		}
		m.to = append(m.to, to)
	}
	if name, err := os.Hostname(); err == nil && plain.Word(name) == name && name != "" {
		m.hello = name
	}
	return m, nil
}

// maxReplies is how much a mail server may send.
const maxReplies = 64 << 10

// boundedConn is a connection whose other end may send so much.
type boundedConn struct {
	net.Conn
	rest io.LimitedReader
}

func (c *boundedConn) Read(p []byte) (int, error) { return c.rest.Read(p) }

// send delivers a mail to all recipients that the server accepts. A recipient that it refuses is an error only if it
// accepts none.
func (m *mailer) send(ctx context.Context, alert message) (err error) {
	step := "the connection"
	defer func() { err = mailError(step, err) }()
	dialed, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.server)
	if err != nil {
		return err
	}
	defer dialed.Close()
	if until, ok := ctx.Deadline(); ok {
		if err := dialed.SetDeadline(until); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = dialed.SetDeadline(time.Unix(1, 0)) })() // the process ends
	var conn net.Conn = &boundedConn{dialed, io.LimitedReader{R: dialed, N: maxReplies}}
	if m.encrypted == "implicit" {
		conn = tls.Client(conn, m.tls)
	}
	client, err := smtp.NewClient(conn, m.host)
	if err != nil {
		return err
	}
	step = "HELO"
	if err := client.Hello(m.hello); err != nil {
		return err
	}
	if m.encrypted == "starttls" {
		step = "STARTTLS"
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return errors.New("the server does not offer it; set tls, or the port, to what it offers")
		}
		if err := client.StartTLS(m.tls); err != nil {
			return err
		}
	}
	if m.user != "" {
		step = "AUTH"
		if err := client.Auth(smtp.PlainAuth("", m.user, m.password.Reveal(), m.host)); err != nil {
			return err
		}
	}
	step = "MAIL"
	if err := client.Mail(m.from.Address); err != nil {
		return err
	}
	step = "RCPT"
	var accepted int
	var refused error
	for _, to := range m.to {
		if err := client.Rcpt(to.Address); err == nil {
			accepted++
		} else if refused = err; !isReply(err) {
			return err
		}
	}
	if accepted == 0 {
		return refused
	}
	step = "DATA"
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(m.text(alert)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = client.Quit() // the server has the mail
	return nil
}

func isReply(err error) bool {
	var reply *textproto.Error
	return errors.As(err, &reply)
}

// mailError leaves out what the server said, which may quote the password.
func mailError(step string, err error) error {
	var reply *textproto.Error
	var protocol textproto.ProtocolError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &reply):
		return fmt.Errorf("the mail server responded to %s with %d", step, reply.Code)
	case errors.As(err, &protocol):
		return fmt.Errorf("the mail server responded to %s with what is not SMTP", step)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the mail server closed the connection at %s", step)
	}
	return fmt.Errorf("%s: %w", step, err)
}

// text returns the mail. Every header is of one line: names are encoded words, and addresses were parsed.
func (m *mailer) text(alert message) []byte {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(m.from.Address, "@")
	to := make([]string, len(m.to))
	for i, a := range m.to {
		to[i] = a.String()
	}
	for _, h := range [][2]string{
		{"From", m.from.String()},
		{"To", strings.Join(to, ",\r\n ")},
		{"Subject", encodedWords("Isogloss: " + plain.Line(alert.title))},
		{"Date", alert.created.UTC().Format(time.RFC1123Z)},
		{"Message-ID", "<" + plain.Word(alert.id) + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(w, strings.Join(append([]string{alert.title}, alert.lines...), "\r\n")+"\r\n") // a buffer accepts all
	_ = w.Close()
	return b.Bytes()
}

// encodedWords returns the text of a header, with a line for each encoded word.
func encodedWords(text string) string {
	return strings.ReplaceAll(mime.QEncoding.Encode("utf-8", text), "?= =?", "?=\r\n =?")
}
