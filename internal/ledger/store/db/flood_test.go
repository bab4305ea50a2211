package db

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

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
			d := opened(t, "postgres://u@"+l.Addr().String()+"/d?sslmode=disable", Options{Timeout: 2 * time.Second})
			<-d.tried
			d.mu.Lock()
			d.state = nil // as if it had the tables
			d.mu.Unlock()
			if err := d.Read(t.Context(), func(ctx context.Context, c Conn) error { return c.Row(ctx, "SELECT 1")(new(int)) }); err == nil {
				t.Error("no error")
			}
		})
	}
}

func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}
