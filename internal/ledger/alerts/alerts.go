// Package alerts delivers alerts about budgets to a webhook.
//
// The store writes an alert in the transaction in which the spending passes a threshold. Each node looks
// for alerts that are due, claims one at a time with a lease and sends it, signed by the rules of
// Standard Webhooks (https://www.standardwebhooks.com). An alert has the same webhook-id at every
// attempt, so that a receiver can drop one that it got twice: a node may die after it was received and
// before that was recorded.
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
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Store holds alerts until they are delivered.
type Store interface {
	ClaimAlert(ctx context.Context, lease time.Duration) (store.Alert, bool, error)
	EndAlert(ctx context.Context, a store.Alert, delivered bool) error
	RetryAlert(ctx context.Context, a store.Alert, due time.Time) error
}

// Options configure a Sender. A zero duration has the default given here.
type Options struct {
	Store  Store
	URL    secret.String
	Secret secret.String // the key of the signature
	Logger *slog.Logger

	Poll    time.Duration // between looks for alerts that are due: 2 s
	Timeout time.Duration // of an attempt: 10 s
	Lease   time.Duration // how long an attempt keeps an alert from other nodes: 30 s
	Backoff time.Duration // after the first attempt, doubled after each further one: 5 s
	MaxWait time.Duration // the longest wait between attempts: an hour
	GiveUp  time.Duration // after which an alert is tried no more: 24 h
}

// Sender delivers alerts.
type Sender struct {
	o      Options
	client *http.Client
}

// New returns a Sender.
func New(o Options) *Sender {
	for to, value := range map[*time.Duration]time.Duration{
		&o.Poll: 2 * time.Second, &o.Timeout: 10 * time.Second, &o.Lease: 30 * time.Second,
		&o.Backoff: 5 * time.Second, &o.MaxWait: time.Hour, &o.GiveUp: 24 * time.Hour,
	} {
		if *to == 0 {
			*to = value
		}
	}
	return &Sender{o: o, client: &http.Client{
		Timeout:       o.Timeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSHandshakeTimeout: o.Timeout, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Run delivers alerts until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if s.deliverNext(ctx) {
			continue
		}
		select {
		case <-time.After(s.o.Poll/2 + rand.N(s.o.Poll)): //nolint:gosec // spreads the load, keeps no secret
		case <-ctx.Done():
		}
	}
}

// deliverNext makes an attempt to deliver an alert that is due. It returns false if there is none, or if
// the store does not respond; the store logs that.
func (s *Sender) deliverNext(ctx context.Context) bool {
	a, found, err := s.o.Store.ClaimAlert(ctx, s.o.Lease)
	if err != nil || !found {
		return false
	}
	logger := s.o.Logger.With("alert", a.ID, "account", a.Account)
	if a.Tries == 1 {
		logger.Warn("budget threshold passed", "threshold", a.Threshold, "budget", a.Budget.Decimal(), "window", a.Window.String(), "spent", a.Spent.Decimal())
	}
	err = s.send(ctx, a)
	stopped := ctx.Err() != nil
	// The result is recorded also if the process ends now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	defer cancel()
	due := time.Now().Add(s.wait(a.Tries))
	switch {
	case err == nil:
		err = s.o.Store.EndAlert(ctx, a, true)
	case stopped: // another node may take it
		err = s.o.Store.RetryAlert(ctx, a, time.Now())
	case due.Sub(a.Created) > s.o.GiveUp:
		logger.Warn("alert not delivered; it is given up", "error", err, "tries", a.Tries)
		err = s.o.Store.EndAlert(ctx, a, false)
	default:
		logger.Warn("alert not delivered; it is tried again", "error", err, "tries", a.Tries, "next", due.UTC().Format(time.RFC3339))
		err = s.o.Store.RetryAlert(ctx, a, due)
	}
	if err != nil {
		logger.Warn("result of an alert not stored; it may be sent again", "error", err)
	}
	return err == nil
}

// wait returns the time until the next attempt.
func (s *Sender) wait(tries int) time.Duration {
	d := s.o.Backoff
	for range tries - 1 {
		if d *= 2; d >= s.o.MaxWait {
			d = s.o.MaxWait
			break
		}
	}
	return d*3/4 + rand.N(d/2+1) //nolint:gosec // spreads the load, keeps no secret
}

// body is the JSON of an alert.
type body struct {
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"` // when the threshold was passed
	Data data      `json:"data"`
}

type data struct {
	Account      string `json:"account"` // key:ID, team:ORG/TEAM or org:ORG
	Name         string `json:"name"`
	Organisation string `json:"organisation"`
	Team         string `json:"team,omitempty"`
	Budget       string `json:"budget"`         // dollars per window, as an exact decimal
	Window       int64  `json:"window_seconds"` // 0: all time
	Spent        string `json:"spent"`          // dollars in the window
	Threshold    int    `json:"threshold"`      // in percent
}

// maxResponse is how much of a response is read.
const maxResponse = 4 << 10

// send makes one attempt.
func (s *Sender) send(ctx context.Context, a store.Alert) error {
	text, err := json.Marshal(body{"budget.threshold_passed", a.Created.UTC().Truncate(time.Second), data{
		Account: a.Account, Name: a.Name, Organisation: a.Org, Team: a.Team, Budget: a.Budget.Decimal(), Window: int64(a.Window / time.Second),
		Spent: a.Spent.Decimal(), Threshold: a.Threshold,
	}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.URL.Reveal(), bytes.NewReader(text))
	if err != nil {
		return errors.New("the address is not valid")
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "isogloss")
	r.Header.Set("Webhook-Id", a.ID)
	r.Header.Set("Webhook-Timestamp", at)
	r.Header.Set("Webhook-Signature", s.sign(a.ID, at, text))
	resp, err := s.client.Do(r)
	if err != nil {
		if outer := (*url.Error)(nil); errors.As(err, &outer) { // it has the address, which may be secret
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

// sign returns the signature of a message.
func (s *Sender) sign(id, timestamp string, text []byte) string {
	mac := hmac.New(sha256.New, []byte(s.o.Secret.Reveal()))
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, text) // never fails
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
