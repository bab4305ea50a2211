package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// TestForgedKeys changes rows of keys behind the gateway's back. Such a key is blocked and
// small, and the others are read as before.
func TestForgedKeys(t *testing.T) {
	forged := map[string]string{
		"json":     `models = '[secret-canary'`,
		"shape":    `models = '{"a":1}'`,
		"numbers":  `endpoints = '[1,2]'`,
		"networks": `networks = '["10.0.0.0/99"]'`,
		"large":    `models = '["' || LARGE || '"]'`,
		"name":     `name = LARGE, criticality = LARGE`,
		"role":     `role = LARGE`,
		"digest":   `digest = CAST(LARGE AS BYTEA)`,
	}
	each(t, func(t *testing.T, url string) {
		var log bytes.Buffer
		s := opened(t, url, Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for name := range forged {
			no(t, s.CreateKey(t.Context(), sampleKey(name)))
		}
		no(t, s.CreateKey(t.Context(), sampleKey("good")))
		large := map[string]string{"postgres": `repeat('x', 20000000)`, "sqlite": `printf('%.*c', 20000000, 'x')`}[s.kind.name]
		for name, set := range forged {
			_, err := s.write.ExecContext(t.Context(), `UPDATE keys SET `+strings.ReplaceAll(set, "LARGE", large)+` WHERE id = '`+name+`'`)
			no(t, err)
		}
		records, err := s.KeysAfter(t.Context(), "", 1000)
		no(t, err)
		if len(records) != len(forged)+1 {
			t.Fatalf("%d keys", len(records))
		}
		for _, r := range records {
			usable := !r.Blocked() && len(r.Digests) > 0
			if kept := r.ID == "good" || r.ID == "name" || r.ID == "role"; usable != kept {
				t.Errorf("%s: blocked is %t, with %d digests", r.ID, r.Blocked(), len(r.Digests))
			}
			n := len(r.Name) + len(r.Role) + len(r.Criticality)
			for _, m := range r.Models {
				n += len(m)
			}
			if n > 2000 {
				t.Errorf("%s: %d bytes are kept", r.ID, n)
			}
		}
		if text := log.String(); strings.Contains(text, "secret-canary") || !strings.Contains(text, "key=json") {
			t.Errorf("the log has %s", text)
		}
	})
}

// TestForgedSums stores negative costs: they do not raise a budget.
func TestForgedSums(t *testing.T) {
	s := opened(t, database(t), Options{Migrate: true})
	no(t, s.CreateKey(t.Context(), sampleKey("k")))
	for _, query := range []string{`ALTER TABLE spent DROP CONSTRAINT spent_cost_check`, `INSERT INTO spent VALUES ('key:k', 500000, 1, 0, -9000000000000)`} {
		_, err := s.write.ExecContext(t.Context(), query)
		no(t, err)
	}
	if sum, err := spentSince(t.Context(), s, "key:k", time.Time{}); err != nil || sum != 0 {
		t.Errorf("spent %d, %v", sum, err)
	}
}

// TestNegativeLimits checks that a key with a negative limit, which would be none, is blocked.
func TestNegativeLimits(t *testing.T) {
	s := opened(t, database(t), Options{Migrate: true})
	no(t, s.CreateKey(t.Context(), sampleKey("k")))
	for _, query := range []string{`ALTER TABLE keys DROP CONSTRAINT keys_budget_check`, `UPDATE keys SET budget = -1`} {
		_, err := s.write.ExecContext(t.Context(), query)
		no(t, err)
	}
	if r, err := s.Key(t.Context(), "k"); err != nil || !r.Blocked() {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFloodingServer connects to a server that speaks PostgreSQL and sends too much, or what the
// driver panics on: a message that announces two gigabytes, a row without a description, and
// notices without end.
func TestFloodingServer(t *testing.T) {
	for name, flood := range map[string]func(io.Writer) error{
		"announced":   func(w io.Writer) error { _, err := w.Write([]byte{'D', 0x7f, 0xff, 0xff, 0xff}); return err },
		"undescribed": func(w io.Writer) error { _, err := w.Write(message('D', "\x00\x01\x00\x00\x00\x01x")); return err },
		"notices": func(w io.Writer) error {
			note := message('N', "SNOTICE\x00M"+strings.Repeat("x", 60_000)+"\x00\x00")
			for {
				if _, err := w.Write(note); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			no(t, err)
			defer l.Close()
			go func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					go func() {
						defer c.Close()
						_, _ = c.Read(make([]byte, 4096)) // the start
						_, _ = c.Write(append(message('R', "\x00\x00\x00\x00"), message('Z', "I")...))
						_, _ = c.Read(make([]byte, 4096)) // the first query
						_ = flood(c)
					}()
				}
			}()
			s := opened(t, "postgres://u@"+l.Addr().String()+"/d?sslmode=disable", Options{Timeout: 2 * time.Second})
			<-s.tried
			s.mu.Lock()
			s.state = nil // as if it had the tables
			s.mu.Unlock()
			began := time.Now()
			if err := s.readOnly(t.Context(), func(ctx context.Context, c conn) error { return c.row(ctx, "SELECT 1").Scan(new(int)) }); err == nil {
				t.Error("no error")
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}
