package main

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestQueriesAreCounted(t *testing.T) {
	s := storetest.Postgres(t)
	p, err := newQueryProxy(s.Addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	url := strings.Replace(s.URL, s.Addr, p.Addr, 1)
	holder := exec.Command("psql", "-X", "-At", s.URL)
	commands, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	held, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = commands.Write([]byte("select 'held' from pg_advisory_lock(1);\n"))
	if line, err := bufio.NewReader(held).ReadString('\n'); line != "held\n" {
		t.Fatalf("the lock is not held: %q, %v", line, err)
	}
	const clients = 4
	done := make(chan error, clients)
	for range clients {
		go func() {
			done <- exec.Command("psql", "-X", "-c", "select pg_advisory_lock_shared(1)", "-c", "select 1", url).Run()
		}()
	}
	testrig.Eventually(t, "all wait for the lock", func() bool { return p.open.Load() == clients })
	_ = commands.Close() // ends the session and its lock
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
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
	if err := testrig.Until(t.Context(), time.Second, "queries stay in flight", func() bool { return p.open.Load() == 0 }); err != nil {
		t.Error(err)
	}
}
