package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

// The proxy counts the queries of PostgreSQL's own client, and no more than are in
// flight.
func TestQueriesAreCounted(t *testing.T) {
	s := storetest.Postgres(t)
	p, err := newProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	url := strings.Replace(s.URL, s.Addr, p.addr, 1)
	const clients = 4
	done := make(chan error, clients)
	for range clients {
		go func() {
			done <- exec.Command("psql", "-X", "-c", "select pg_sleep(0.5)", "-c", "select 1", url).Run()
		}()
	}
	for range clients {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n := p.queries.Load(); n != 2*clients {
		t.Errorf("%d queries, want %d", n, 2*clients)
	}
	if n := p.peak.Load(); n != clients {
		t.Errorf("%d in flight, want %d", n, clients)
	}
	if err := until(t.Context(), time.Second, "queries stay in flight", func() bool { return p.open.Load() == 0 }); err != nil {
		t.Error(err)
	}
}

func TestWayCanBeCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	p, err := newProxy(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	alive := func() bool {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded) // nobody says anything, and nobody hangs up
	}
	if !alive() {
		t.Error("nobody gets through")
	}
	p.cut()
	if alive() {
		t.Error("somebody gets through a cut way")
	}
	p.mend()
	if !alive() {
		t.Error("nobody gets through a mended way")
	}
}
