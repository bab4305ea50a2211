package discover

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

const (
	etcdPatience = 2 * time.Second        // for one response
	pageSize     = 1000                   // keys in one response
	smallPage    = 8                      // if a page is larger than maxPage: etcd stores values of up to 1.5 MB
	maxPage      = 16 << 20               // bytes of one response
	maxValue     = 64 << 10               // bytes of one worker
	retryLeast   = 100 * time.Millisecond // between two retries
	retryMost    = time.Second
)

// etcd is the connection that the source, the registrar and the count of gateways share.
type etcd struct {
	o   EtcdOptions
	tls *tls.Config
}

// SetPassword sets a password from plain text.
func (o *EtcdOptions) SetPassword(text string) { o.Password = secret.String(text) }

func newEtcd(o EtcdOptions) (*etcd, error) {
	o.Name = cmp.Or(o.Name, "etcd")
	o.Prefix = "/" + strings.Trim(cmp.Or(o.Prefix, "/isogloss/"), "/") + "/"
	o.Relist = cmp.Or(o.Relist, 30*time.Second)
	o.Pulse = cmp.Or(o.Pulse, time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Endpoints) == 0 {
		return nil, errors.New("etcd: endpoints: none is given; write http://127.0.0.1:2379 or the like")
	}
	secure := 0
	for _, e := range o.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("etcd: endpoints: write each as http://host:port or https://host:port, without a user")
		}
		if u.Scheme == "https" {
			secure++
		}
	}
	if secure != 0 && secure != len(o.Endpoints) {
		return nil, errors.New("etcd: endpoints: some are http and some are https; they are one cluster")
	}
	config, err := o.tlsConfig(secure > 0)
	return &etcd{o: o, tls: config}, err
}

// tlsConfig fails if it cannot read a file: a missing CA must not lead to a connection
// without one.
func (o EtcdOptions) tlsConfig(secure bool) (*tls.Config, error) {
	if !secure {
		if o.CA != "" || o.Cert != "" || o.Key != "" {
			return nil, errors.New("etcd: there are certificates, but the endpoints are http; write https")
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("etcd: ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd: ca: %s has no certificate in PEM", o.CA)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("etcd: cert and key go together")
	}
	if o.Cert != "" {
		if _, err := tls.LoadX509KeyPair(o.Cert, o.Key); err != nil {
			return nil, fmt.Errorf("etcd: cert, key: %w", err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.Cert, o.Key) // the files may be renewed at any time
			return &pair, err
		}
	}
	return config, nil
}

func (e *etcd) workers() string { return e.o.Prefix + "workers/" }

func (e *etcd) gateways() string { return e.o.Prefix + "gateways/" }

// connect creates a client. With a password it fails while etcd is down, without one it
// does not.
func (e *etcd) connect(ctx context.Context) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Context:   ctx,
		Endpoints: e.o.Endpoints,
		Username:  e.o.Username, Password: e.o.Password.Reveal(),
		TLS:         e.tls,
		DialTimeout: etcdPatience,
		// Keep-alive pings detect a connection to a frozen machine. etcd closes a connection
		// with pings less than 5 seconds apart, or without a watch or a call.
		DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		// The default of gRPC waits up to two minutes between retries; workers would be
		// unknown for that long after etcd is back.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryLeast, Multiplier: 1.6, Jitter: 0.2, MaxDelay: retryMost},
			MinConnectTimeout: etcdPatience,
		})},
		MaxCallRecvMsgSize: maxPage,
		Logger:             zap.NewNop(), // it would write to stderr
	})
}

// use runs work with a client until the context ends. When work returns it creates a
// new client.
func (e *etcd) use(ctx context.Context, work func(*clientv3.Client)) {
	var often logInterval
	for ctx.Err() == nil {
		c, err := e.connect(ctx)
		if err != nil {
			if often.now() {
				e.o.Logger.Warn("etcd does not respond", "error", err.Error())
			}
			pause(ctx, retryMost)
			continue
		}
		work(c)
		_ = c.Close() // it only reports that its context has ended
	}
}

// pause waits for a random time between a tenth of most and most, so that clients that
// failed together do not return together.
func pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(most/10 + rand.N(most-most/10)): //nolint:gosec // not a secret
	}
}

// logInterval limits how often a line is logged.
type logInterval struct{ last time.Time }

func (s *logInterval) now() bool {
	if !s.last.IsZero() && time.Since(s.last) < 30*time.Second {
		return false
	}
	s.last = time.Now()
	return true
}
