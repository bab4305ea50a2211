package storetest

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"testing"
	"time"
)

// TestStores starts, freezes, thaws, kills, empties and restarts each store.
func TestStores(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *Server{"redis": Redis, "postgres": Postgres, "etcd": Etcd} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Freeze()
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			if err := s.kind.ready(ctx, s.Addr); err == nil {
				t.Error("a frozen store answers")
			}
			s.Thaw()
			if err := s.await(); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if err := s.kind.ready(context.Background(), s.Addr); err == nil {
				t.Error("a killed store answers")
			}
			if err := s.Wipe(); err != nil {
				t.Fatal(err)
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFrozenPostgresIsSilent checks that a frozen PostgreSQL does not respond on open connections,
// and that a killed one leaves no process.
func TestFrozenPostgresIsSilent(t *testing.T) {
	s := Postgres(t)
	cmd := exec.Command("psql", "-X", "-q", "-A", "-t", s.URL)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewScanner(out); r.Scan(); {
			lines <- r.Text()
		}
	}()
	ask := func() {
		t.Helper()
		if _, err := io.WriteString(in, "select 'here';\n"); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if line := <-lines; line != "here" {
		t.Fatalf("it says %q", line)
	}
	s.Freeze()
	ask()
	select {
	case line := <-lines:
		t.Errorf("frozen, it says %q", line)
	case <-time.After(300 * time.Millisecond):
	}
	s.Thaw()
	if line := <-lines; line != "here" {
		t.Errorf("thawed, it says %q", line)
	}
	had := children(s.PID())
	if len(had) == 0 {
		t.Error("it has no children")
	}
	s.Kill()
	for _, pid := range had {
		if !waitUntil(func() bool { return !running(pid) }) {
			t.Errorf("process %d is left", pid)
		}
	}
}
