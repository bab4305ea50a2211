// Package alerts delivers alerts to webhooks, to Slack and by e-mail: about budgets, and about states of the gateway that
// a person should know.
//
// The store writes an alert in the transaction in which the spending passes a threshold, or when a node finds a state
// that no node has found before. An alert has a row for each receiver. Each node looks for rows that are due, claims one
// at a time with a lease and sends it, so that one node delivers it, and a slow receiver holds up no other. A row has the
// same id at every attempt, so that a receiver can drop an alert that it got twice: a node may die after it was received
// and before that was recorded.
package alerts

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Store holds alerts until they are delivered.
type Store interface {
	ClaimAlert(ctx context.Context, receivers []string, lease time.Duration) (store.Alert, bool, error)
	AdoptAlerts(ctx context.Context, receivers []string, overdue time.Duration) (int, error)
	EndAlert(ctx context.Context, a store.Alert, delivered bool) error
	RetryAlert(ctx context.Context, a store.Alert, due time.Time) error
}

// Options configure a Sender. A zero duration has the default given here.
type Options struct {
	Store     Store
	Receivers []Receiver
	Logger    *slog.Logger

	Poll    time.Duration // between looks for alerts that are due: 2 s
	Timeout time.Duration // of an attempt: 20 s
	Lease   time.Duration // how long an attempt keeps an alert from other nodes: 60 s
	Backoff time.Duration // after the first attempt, doubled after each further one: 5 s
	MaxWait time.Duration // the longest wait between attempts: an hour
	GiveUp  time.Duration // after which an alert is tried no more: 24 h
	Adopt   time.Duration // after which an alert of an unknown receiver goes to the others: 10 min
}

// Sender delivers alerts.
type Sender struct {
	o     Options
	names []string
	send  map[string]func(ctx context.Context, m message) error
}

var errNoCertificate = errors.New("there is no certificate in the file")

// New returns a Sender.
func New(o Options) (*Sender, error) {
	for to, value := range map[*time.Duration]time.Duration{
		&o.Poll: 2 * time.Second, &o.Timeout: 20 * time.Second, &o.Lease: time.Minute,
		&o.Backoff: 5 * time.Second, &o.MaxWait: time.Hour, &o.GiveUp: 24 * time.Hour, &o.Adopt: 10 * time.Minute,
	} {
		if *to == 0 {
			*to = value
		}
	}
	s := &Sender{o: o, send: map[string]func(context.Context, message) error{}}
	client := newClient(o.Timeout)
	for _, r := range o.Receivers {
		s.names = append(s.names, r.Name)
		switch r.Kind {
		case "slack":
			s.send[r.Name] = slack{client: client, url: r.URL}.send
		case "email":
			m, err := newMailer(r)
			if err != nil {
				return nil, err
			}
			s.send[r.Name] = m.send
		default:
			s.send[r.Name] = webhook{client: client, url: r.URL, secret: r.Secret}.send
		}
	}
	return s, nil
}

// Run delivers alerts until ctx ends, one at a time to each receiver.
func (s *Sender) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	idle, done := slices.Clone(s.names), make(chan string, len(s.names))
	var adopted time.Time
	for ctx.Err() == nil {
		if time.Since(adopted) > s.o.Adopt/10 {
			adopted = time.Now()
			s.adopt(ctx)
		}
		if a, found, err := s.o.Store.ClaimAlert(ctx, idle, s.o.Lease); err == nil && found { // the store logs errors
			idle = slices.DeleteFunc(idle, func(name string) bool { return name == a.Receiver })
			sending.Go(func() {
				_ = crash.Do(s.o.Logger, func() { s.deliver(ctx, a) }, "alert", a.ID)
				done <- a.Receiver
			})
			continue
		}
		select {
		case name := <-done:
			idle = append(idle, name)
		case <-time.After(s.o.Poll/2 + rand.N(s.o.Poll)): //nolint:gosec // spreads the load, keeps no secret
		case <-ctx.Done():
		}
	}
}

// adopt takes alerts whose receiver is not configured any more.
func (s *Sender) adopt(ctx context.Context) {
	if n, err := s.o.Store.AdoptAlerts(ctx, s.names, s.o.Adopt); err == nil && n > 0 {
		s.o.Logger.Warn("alerts of a receiver that is not configured go to the others", "alerts", n)
	}
}

// deliver makes an attempt to deliver a claimed alert, and records its result.
func (s *Sender) deliver(ctx context.Context, a store.Alert) {
	m := newMessage(a)
	logger := s.o.Logger.With("alert", a.ID)
	if a.Receiver != "" {
		logger = logger.With("receiver", a.Receiver)
	}
	if a.Tries == 1 {
		s.announce(logger, a, m)
	}
	attempt, cancel := context.WithTimeout(ctx, s.o.Timeout)
	err := s.send[a.Receiver](attempt, m)
	cancel()
	stopped := ctx.Err() != nil
	// The result is recorded also if the process ends now.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
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
}

// announce logs an alert. The name of its account is not logged.
func (s *Sender) announce(logger *slog.Logger, a store.Alert, m message) {
	if a.Type == store.BudgetPassed {
		logger.Warn("budget threshold passed", "account", a.Account, "threshold", a.Threshold, "budget", a.Budget.Decimal(), "window", a.Window.String(), "spent", a.Spent.Decimal())
		return
	}
	logger.Warn("alert", "type", plain.Word(a.Type), "conditions", len(m.conditions)+a.Detail.More)
}

// SendNow makes one attempt to deliver an alert to each receiver of its topic, without the store. It reports whether one
// has it.
func (s *Sender) SendNow(ctx context.Context, a store.Alert) bool {
	m := newMessage(a)
	var delivered bool
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, r := range s.o.Receivers {
		if !slices.Contains(r.About, m.topic()) {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
			defer cancel()
			var err error
			if !crash.Do(s.o.Logger, func() { err = s.send[r.Name](ctx, m) }, "alert", a.ID) {
				err = crash.ErrPanic
			}
			if err != nil {
				s.o.Logger.Warn("alert not delivered; it is tried again", "alert", a.ID, "receiver", r.Name, "error", err)
				return
			}
			mu.Lock()
			delivered = true
			mu.Unlock()
		})
	}
	all.Wait()
	return delivered
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
