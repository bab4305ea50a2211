package discover

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestEtcdWithAPassword checks that the client authenticates again after a restart of
// etcd, which forgets its authentication.
func TestEtcdWithAPassword(t *testing.T) {
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "canary"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	e := at(s.URL)
	_, stranger := follow(t, e, Options{})
	e.Username, e.Password = "root", "canary"
	a, d := follow(t, e, Options{})
	register(t, e, time.Minute, fleet(3, "m")...) // the leases outlast the restart
	whole(t, d, 3)
	eventually(t, "the news that etcd rejects a client without the password", func() bool { return stranger.Status().Snapshot.Stale })
	if got := stranger.Status(); len(got.Snapshot.Workers) != 0 {
		t.Errorf("without the password it sees %+v", got)
	}
	since := a.count()
	s.Kill()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	register(t, e, time.Minute, worker("new", "m"))
	t.Logf("resync after %v", whole(t, d, 4))
	a.never(t, since, 3)
}

// TestReplacedClientKeepsTheWorker closes the client of a registered worker. The client that replaces it does not withdraw the
// worker.
func TestReplacedClientKeepsTheWorker(t *testing.T) {
	e, err := newEtcd(at(storetest.Etcd(t).URL))
	if err != nil {
		t.Fatal(err)
	}
	key := e.workers() + "w"
	r := &registrar{o: RegisterOptions{Every: time.Second}, entry: entry{etcd: e, key: key, value: []byte("{}"), ttl: 4 * time.Second, logger: e.o.Logger}}
	observer, first, second := client(t, e.o.Endpoints...), client(t, e.o.Endpoints...), client(t, e.o.Endpoints...)
	ended := make(chan struct{})
	go func() { defer close(ended); r.run(t.Context(), first) }()
	eventually(t, "the registration", func() bool {
		got, err := observer.Get(t.Context(), key)
		return err == nil && len(got.Kvs) == 1
	})
	events := observer.Watch(t.Context(), key)
	_ = first.Close()
	<-ended // after maxFailures
	ctx, stop := context.WithCancel(t.Context())
	ended = make(chan struct{})
	go func() { defer close(ended); r.run(ctx, second) }()
	lease, err := observer.Get(t.Context(), key)
	if err != nil || len(lease.Kvs) != 1 {
		t.Fatal(lease, err)
	}
	eventually(t, "the renewal of the lease", func() bool {
		got, err := observer.TimeToLive(t.Context(), clientv3.LeaseID(lease.Kvs[0].Lease))
		return err == nil && got.TTL >= 3
	})
	select {
	case e := <-events:
		t.Errorf("the key was changed: %v", e.Events)
	default:
	}
	stop()
	<-ended
}

// pair writes a self-signed certificate and its key.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	bits, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: bits}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}

// TestEtcdWithCertificates checks mutual TLS, and that a certificate of another authority
// is rejected.
func TestEtcdWithCertificates(t *testing.T) {
	s := storetest.Etcd(t)
	put(t, client(t, s.URL), fleet(3, "m")...)
	cert, key := pair(t)
	url := secureWire(t, s.Addr, cert, key)
	e := at(url)
	e.CA, e.Cert, e.Key = cert, cert, key
	_, d := follow(t, e, Options{})
	whole(t, d, 3)

	other, otherKey := pair(t)
	for name, wrong := range map[string]EtcdOptions{
		"authority":   {Endpoints: []string{url}, CA: other, Cert: cert, Key: key},
		"certificate": {Endpoints: []string{url}, CA: cert, Cert: other, Key: otherKey},
		"none":        {Endpoints: []string{url}, CA: cert},
	} {
		e, err := newEtcd(wrong)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		c, err := e.connect(ctx)
		if err == nil {
			_, err = c.Get(ctx, "x")
			c.Close()
		}
		if cancel(); err == nil {
			t.Errorf("a wrong %s is taken", name)
		}
	}
}

// secureWire is a TLS proxy in front of etcd.
func secureWire(t *testing.T, to, cert, key string) string {
	t.Helper()
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return "https://" + l.Addr().String()
}
