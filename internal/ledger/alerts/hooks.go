package alerts

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// maxResponse is how much of a response is read.
const maxResponse = 4 << 10

func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// webhook gets alerts as JSON, signed by the rules of Standard Webhooks (https://www.standardwebhooks.com).
type webhook struct {
	client *http.Client
	url    secret.String
	secret secret.String // the key of the signature
}

// body is the JSON of an alert.
type body struct {
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"` // when it was raised
	Data any       `json:"data"`
}

func (w webhook) send(ctx context.Context, m message) error {
	text, err := json.Marshal(body{m.kind, m.created.UTC().Truncate(time.Second), m.data})
	if err != nil {
		return err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	return post(ctx, w.client, w.url, text, map[string]string{"Webhook-Id": m.id, "Webhook-Timestamp": at, "Webhook-Signature": w.sign(m.id, at, text)})
}

// sign returns the signature of a message.
func (w webhook) sign(id, timestamp string, text []byte) string {
	mac := hmac.New(sha256.New, []byte(w.secret.Reveal()))
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, text) // never fails
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// slack gets alerts as texts at an incoming webhook.
type slack struct {
	client *http.Client
	url    secret.String
}

// slackText escapes what Slack reads as a link or a mention, such as <!channel>.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// maxSlack is how much text is sent. Slack cuts texts of more than 40,000 characters.
const maxSlack = 20_000

func (s slack) send(ctx context.Context, m message) error {
	lines := "Isogloss: " + m.title
	for _, line := range m.lines {
		if len(lines)+len(line) > maxSlack {
			break
		}
		lines += "\n" + line
	}
	text, err := json.Marshal(map[string]any{"text": slackText.Replace(lines), "mrkdwn": false, "unfurl_links": false, "unfurl_media": false}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return post(ctx, s.client, s.url, text, nil)
}

// post sends JSON to an address, which is secret.
func post(ctx context.Context, client *http.Client, address secret.String, text []byte, header map[string]string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.Reveal(), bytes.NewReader(text))
	if err != nil {
		return errors.New("the address is not valid")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "isogloss")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		if outer := (*url.Error)(nil); errors.As(err, &outer) { // it has the address
			err = outer.Err
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxResponse)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the receiver responded with %d", resp.StatusCode)
	}
	return nil
}
