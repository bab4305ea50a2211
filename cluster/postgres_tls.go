package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// tlsRole is the role of the gateways. It has to use TLS and a password.
const tlsRole = "gateway"

// runPostgresTLS connects the nodes with TLS and a password, which is changed under load.
func runPostgresTLS(ctx context.Context, s *stage) {
	ca, otherCA := s.requireTLS(ctx, "localhost"), filepath.Join(s.dir, "other-ca.pem")
	issue(otherCA, filepath.Join(s.dir, "other.pem"), filepath.Join(s.dir, "other.key"), "localhost")
	passfile := filepath.Join(s.dir, "passfile")
	testrig.NoError(os.WriteFile(passfile, []byte("*:*:*:"+tlsRole+":first\n"), 0o600))
	_, port, _ := net.SplitHostPort(s.postgres.Addr)
	address := func(host, ca string) settings {
		with := s.settings()
		with.store = fmt.Sprintf("postgres://%s@%s/postgres?sslmode=verify-full&sslrootcert=%s&channel_binding=require&passfile=%s", tlsRole, net.JoinHostPort(host, port), ca, passfile)
		return with
	}
	var refusals sync.WaitGroup // the command line waits for a store for 15 s
	defer refusals.Wait()
	refusals.Go(func() {
		s.refusesServer(ctx, "postgres-tls/wrong-name", address("127.0.0.1", ca), "write a host name of the server's certificate")
	})
	refusals.Go(func() {
		s.refusesServer(ctx, "postgres-tls/wrong-authority", address("localhost", otherCA), "write sslrootcert=FILE")
	})
	s.restartWith(ctx, address("localhost", ca))
	s.rotatePassword(ctx, passfile)
}

// requireTLS gives PostgreSQL a certificate for a name and makes the role need TLS and a password. It
// returns the file of the CA.
func (s *stage) requireTLS(ctx context.Context, name string) (ca string) {
	dir := s.postgres.Dir()
	ca = filepath.Join(s.dir, "ca.pem")
	cert, key := filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	issue(ca, cert, key, name)
	owner := testrig.Must(os.Stat(dir)).Sys().(*syscall.Stat_t)
	for _, file := range []string{cert, key} {
		testrig.NoError(os.Chown(file, int(owner.Uid), int(owner.Gid)))
	}
	access := filepath.Join(dir, "pg_hba.conf")
	rules := testrig.Must(os.ReadFile(access))
	testrig.NoError(os.WriteFile(access, append([]byte("hostssl all "+tlsRole+" all scram-sha-256\nhost all "+tlsRole+" all reject\n"), rules...), 0o600))
	for _, sql := range []string{
		"CREATE ROLE " + tlsRole + " LOGIN SUPERUSER PASSWORD 'first'", // the tables belong to another role
		"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()",
	} {
		testrig.Must(s.query(ctx, sql))
	}
	return ca
}

// issue writes a new CA and a certificate for a name with its key.
func issue(ca, cert, key, name string) {
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of " + name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	server := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter}
	signer, private := testrig.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), testrig.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	write := func(file, kind string, der []byte) {
		testrig.NoError(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	write(ca, "CERTIFICATE", testrig.Must(x509.CreateCertificate(rand.Reader, authority, authority, &signer.PublicKey, signer)))
	write(cert, "CERTIFICATE", testrig.Must(x509.CreateCertificate(rand.Reader, server, authority, &private.PublicKey, signer)))
	write(key, "PRIVATE KEY", testrig.Must(x509.MarshalPKCS8PrivateKey(private)))
}

// refusesServer checks that the gateway's command line does not use a server, and says what to do.
func (s *stage) refusesServer(ctx context.Context, check string, with settings, advice string) {
	began := time.Now()
	g, err := s.newNode(filepath.Base(check), with)
	if err == nil {
		_, err = g.Command(ctx, "keys", "list", "-c", g.Config)
	}
	text := strings.ReplaceAll(fmt.Sprint(err), s.dir, "…")
	_, message, _ := strings.Cut(text, "tls: ")
	s.Check(check, "refused: "+strings.TrimSpace(message), began, testrig.Unless(err != nil && strings.Contains(text, advice), "it should be refused with %q: %s", advice, text))
}

// rotatePassword changes the password of the role under load and closes all connections.
func (s *stage) rotatePassword(ctx context.Context, passfile string) {
	began := time.Now()
	k := s.usedKey(ctx, "rotation", dear, limits{requests: 10_000_000, budget: 100_000_000})
	end := s.background(ctx, 60, func(int) (key, string) { return k, dear })
	testrig.Pause(ctx, time.Second)
	testrig.Must(s.query(ctx, "ALTER ROLE "+tlsRole+" PASSWORD 'second'"))
	testrig.NoError(os.WriteFile(passfile, []byte("*:*:*:"+tlsRole+":second\n"), 0o600))
	changed := time.Now()
	closed := testrig.Must(s.query(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '"+tlsRole+"'"))[0][0]
	s.usedKey(ctx, "after", dear, limits{}) // by a new process, and on nodes that have not seen it
	took := time.Since(changed)
	testrig.Pause(ctx, 2*time.Second)
	seen := end()
	tls := testrig.Must(s.query(ctx, "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = '"+tlsRole+"'"))[0]
	s.Check("postgres-tls/password", fmt.Sprintf("%d requests while the password was changed and %s connections were closed; a new key was served everywhere %v later; %s of %s connections then had TLS",
		len(seen), closed, took.Round(10*time.Millisecond), tls[1], tls[0]), began,
		append(bad(seen, exchange.good), testrig.Unless(number(closed) >= nodes, "only %s connections were closed", closed),
			testrig.Unless(tls[0] == tls[1] && number(tls[0]) >= nodes, "%s of %s connections have TLS", tls[1], tls[0]))...)
	s.ledgerAgrees(ctx, "postgres-tls/ledger", settleTime)
}
