// Package usagesetup builds the log of usage events, its consumer and the client of ClickHouse from the configuration.
package usagesetup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/consume"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/kafka"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/nats"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// log is a log that can be written too.
type log interface {
	usagelog.Log
	usagelog.Producer
	Examine(ctx context.Context) (usagelog.Facts, error)
}

// openLog returns the log of usage events of the configuration. It does not connect.
func openLog(s *config.Sink) (log, error) {
	if k := s.Kafka; k != nil {
		c, err := clientTLS("usage.sink", k.TLS, k.CA, k.Cert, k.Key)
		if err != nil {
			return nil, err
		}
		return kafka.New(*k, c)
	}
	n := s.NATS
	c, err := clientTLS("usage.sink", n.TLS(), n.CA, n.Cert, n.Key)
	if err != nil {
		return nil, err
	}
	return nats.New(*n, c), nil
}

// openRefusals returns the log of refused requests, a second log at the same brokers. It does not connect.
func openRefusals(s *config.Sink) (log, error) {
	if s.Kafka != nil {
		k := *s.Kafka
		k.Topic, k.Partitions = k.Topic+usagelog.RefusalSuffix, 1
		return openLog(&config.Sink{Kafka: &k})
	}
	n := *s.NATS
	n.Stream, n.Partitions = n.Stream+usagelog.RefusalSuffix, 1
	return openLog(&config.Sink{NATS: &n})
}

// clientTLS returns nil without TLS.
func clientTLS(setting string, on bool, ca, cert, key string) (*tls.Config, error) {
	if !on {
		return nil, nil //nolint:nilnil // no TLS
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca) //nolint:gosec // the operator's file
		if err != nil {
			return nil, fmt.Errorf("%s.ca: %w", setting, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.ca: %s has no certificate", setting, ca)
		}
	}
	if cert != "" {
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return nil, fmt.Errorf("%s.cert: %w", setting, err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key) // the files may be renewed at any time
			return &pair, err
		}
	}
	return c, nil
}

// Check reads the files that the configuration names.
func Check(u *config.Usage) error {
	var sink, server error
	if u.Sink != nil {
		if k := u.Sink.Kafka; k != nil {
			_, sink = clientTLS("usage.sink", k.TLS, k.CA, k.Cert, k.Key)
		}
		if n := u.Sink.NATS; n != nil {
			_, sink = clientTLS("usage.sink", n.TLS(), n.CA, n.Cert, n.Key)
			if _, err := os.Stat(n.Credentials); n.Credentials != "" && err != nil {
				sink = errors.Join(sink, fmt.Errorf("usage.sink.nats.credentials: %w", err))
			}
		}
	}
	if h := u.ClickHouse; h != nil {
		_, server = clientTLS("usage.clickhouse", true, h.CA, "", "")
	}
	return errors.Join(sink, server)
}

// Examine returns the facts of the log of usage events.
func Examine(ctx context.Context, s *config.Sink) (usagelog.Facts, error) {
	l, err := openLog(s)
	if err != nil {
		return usagelog.Facts{}, err
	}
	defer l.Close()
	return l.Examine(ctx)
}

// ClickHouse returns the database of the configuration.
func ClickHouse(h *clickhouse.Settings) (*clickhouse.DB, error) {
	c, err := clientTLS("usage.clickhouse", true, h.CA, "", "")
	if err != nil {
		return nil, err
	}
	return clickhouse.New(clickhouse.Options{URL: h.URL, Database: h.Database, Username: h.Username, Password: h.Password.Reveal(), TLS: c}), nil
}

// keyUse and refusalUse are what the keys of the MACs are derived for.
const (
	keyUse     = "usage events"
	refusalUse = "refused requests"
)

// Sink returns the sink of a gateway's spool, and a function that closes it.
func Sink(c *config.Sink, s *store.Store, peppers access.Peppers) (*usagelog.Sink, func(), error) {
	key, err := peppers.Derive(keyUse)
	if err != nil {
		return nil, nil, err
	}
	l, err := openLog(c)
	if err != nil {
		return nil, nil, err
	}
	return usagelog.NewSink(l, ledger.Ledger{Store: s}, c.Partitions(), key), l.Close, nil
}

// Refusals returns the sink of the refused requests of a node, and a function that closes it.
func Refusals(c *config.Sink, node string, peppers access.Peppers) (*usagelog.Refusals, func(), error) {
	key, err := peppers.Derive(refusalUse)
	if err != nil {
		return nil, nil, err
	}
	l, err := openRefusals(c)
	if err != nil {
		return nil, nil, err
	}
	return usagelog.NewRefusals(l, key, node), l.Close, nil
}

// Spent is the ledger of the limiter if requests are not in the store: windows begin with a minute, because the
// sums do. A budget is never exceeded by that; up to a minute's spending before the window may count.
type Spent struct{ *store.Store }

// Spent returns what an account has spent.
func (s Spent) Spent(ctx context.Context, account string, since ...time.Time) (quota.Spent, error) {
	whole := make([]time.Time, len(since))
	for i, t := range since {
		whole[i] = t.Truncate(time.Minute)
	}
	return s.Store.Spent(ctx, account, whole...)
}

var _ interface {
	Append(context.Context, usage.Batch) (int64, error)
	Stored(context.Context, string) (int64, bool, error)
} = (*usagelog.Sink)(nil)

// Consume reads the log until ctx ends. Listen is the address of its probes and metrics; empty: none.
func Consume(ctx context.Context, cfg *config.Config, listen string, out io.Writer) error {
	if cfg.Usage.Sink == nil {
		return errors.New("there is no log of usage events to consume; write usage.sink")
	}
	observer, err := observe.New(observe.Options{Log: out, Level: cfg.Log.Lowest(), Format: cfg.Log.Format})
	if err != nil {
		return err
	}
	logger := observer.Logger()
	peppers, err := access.NewPeppers(cfg.Store.Peppers)
	if err != nil {
		return fmt.Errorf("store.peppers: %w", err)
	}
	key, err := peppers.Derive(keyUse)
	if err != nil {
		return fmt.Errorf("store.peppers: %w; events are checked with it", err)
	}
	s, err := store.Open(ctx, cfg.Store.URL.Reveal(), store.Options{Migrate: true, Logger: logger, Alerts: cfg.Alerts.Rules(), Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := openLog(cfg.Usage.Sink)
	if err != nil {
		return err
	}
	defer l.Close()
	host, _ := os.Hostname()
	o := consume.Options{ID: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strconv.FormatInt(time.Now().UnixNano(), 36)), Log: l, Partitions: cfg.Usage.Sink.Partitions(), Key: key,
		Ledger: ledger.Ledger{Store: s, Balances: cfg.Usage.ClickHouse != nil}, Logger: logger}
	if k, ok := l.(*kafka.Log); ok {
		o.Weaknesses = k.Weaknesses
	}
	if h := cfg.Usage.ClickHouse; h != nil {
		d, err := ClickHouse(h)
		if err != nil {
			return err
		}
		defer d.Close()
		o.Requests = d
	}
	refused := o
	refused.Partitions, refused.Refusals = 1, s
	if d, ok := o.Requests.(*clickhouse.DB); ok {
		refused.Refusals = d
	}
	if refused.Key, err = peppers.Derive(refusalUse); err != nil {
		return fmt.Errorf("store.peppers: %w", err)
	}
	ofRefusals, err := openRefusals(cfg.Usage.Sink)
	if err != nil {
		return err
	}
	defer ofRefusals.Close()
	refused.Log, refused.Weaknesses = ofRefusals, nil
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { crash.Keep(ctx, logger, func() { _ = consume.New(refused).Run(ctx) }) }) // it returns nil when ctx ends
	defer work.Wait()
	defer stop()
	c := consume.New(o)
	if listen != "" {
		n, err := net.Listen("tcp", listen) //nolint:noctx // it does not wait
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		server := &http.Server{Handler: c, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
		go func() { _ = server.Serve(n) }() // until Close
		defer server.Close()
	}
	logger.Info("consuming usage events", "log", l.Name(), "consumer", o.ID)
	return c.Run(ctx)
}
