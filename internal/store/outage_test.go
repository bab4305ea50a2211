package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

// asked calls everything that a node calls, with a deadline, and returns the first
// error and the longest time.
func asked(s *Store, deadline time.Duration) (longest time.Duration, err error) {
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := s.Key(ctx, "k1"); return err },
		func(ctx context.Context) error { _, _, err := s.Changes(ctx, 0, 100); return err },
		func(ctx context.Context) error { _, err := s.Spent(ctx, "org:default", noon); return err },
		func(ctx context.Context) error { return s.Append(ctx, rows("ee", 10)) },
	} {
		ctx, cancel := context.WithTimeout(bg(), deadline)
		start := time.Now()
		e := call(ctx)
		longest = max(longest, time.Since(start))
		cancel()
		if err == nil {
			err = e
		}
	}
	return longest, err
}

// back returns how long it takes until the store answers again.
func back(t *testing.T, s *Store) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		_, err := asked(s, time.Second)
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > 30*time.Second {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // a real server needs real time
	}
}

// A server that is frozen costs a call its deadline, one that is dead costs nothing,
// and neither is felt two seconds after it is back.
func TestOutage(t *testing.T) {
	server := storetest.Postgres(t)
	s := opened(t, server.URL, Options{Migrate: true})
	no(t, s.CreateKey(bg(), sampleKey("k1")))

	// All connections are in use when it freezes.
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 2 * connections {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(bg(), 300*time.Millisecond)
				_, _ = s.Key(ctx, "k1")
				cancel()
			}
		})
	}
	const deadline, slack = 200 * time.Millisecond, 150 * time.Millisecond
	server.Freeze()
	for range 5 {
		took, err := asked(s, deadline)
		if err == nil || errors.Is(err, access.ErrUnknown) || took > deadline+slack {
			t.Errorf("frozen: %v after %s", err, took)
		}
	}
	close(stop)
	load.Wait()
	server.Thaw()
	if took := back(t, s); took > 2*time.Second {
		t.Errorf("thawed: back after %s", took)
	}

	server.Kill()
	if took, err := asked(s, time.Second); err == nil || errors.Is(err, access.ErrUnknown) || took > slack {
		t.Errorf("killed: %v after %s", err, took)
	}
	no(t, server.Start())
	if took := back(t, s); took > 2*time.Second {
		t.Errorf("restarted: back after %s", took)
	}
	if n := count(t, s, "requests"); n != 10 {
		t.Errorf("%d rows", n)
	}

	server.Kill()
	no(t, server.Wipe())
	no(t, server.Start())
	if took := empty(t, s); took > 2*time.Second { // it has no tables, and then no key
		t.Errorf("wiped: back after %s", took)
	}
}

// A call without a deadline ends by itself.
func TestOwnDeadline(t *testing.T) {
	server := storetest.Postgres(t)
	s := opened(t, server.URL, Options{Migrate: true, Timeout: 300 * time.Millisecond})
	empty(t, s)
	server.Freeze()
	start := time.Now()
	if _, err := s.Key(bg(), "k1"); err == nil || time.Since(start) > time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
	server.Thaw()
}

// A store opens while its server is down, says so at once, and serves when it is up.
func TestServerComesLater(t *testing.T) {
	server := storetest.Postgres(t)
	server.Kill()
	start := time.Now()
	url := strings.Replace(server.URL, "postgres@", "postgres:canary-Jx7@", 1)
	s := opened(t, url, Options{Migrate: true})
	_, err := s.Key(bg(), "k1")
	if err == nil || errors.Is(err, access.ErrUnknown) || time.Since(start) > time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
	if strings.Contains(err.Error(), "canary") || s.Ready() == nil {
		t.Errorf("ready: %v; %v", s.Ready(), err)
	}
	no(t, server.Start())
	if took := empty(t, s); took > 2*time.Second {
		t.Errorf("back after %s", took)
	}
}

// empty waits until the store knows that there is no key.
func empty(t *testing.T, s *Store) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		_, err := s.Key(bg(), "k1")
		if errors.Is(err, access.ErrUnknown) {
			return time.Since(start)
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // a real server needs real time
	}
}

// One that is closed while its server is frozen ends.
func TestCloseWhileFrozen(t *testing.T) {
	server := storetest.Postgres(t)
	server.Freeze()
	s, err := Open(bg(), server.URL, Options{Migrate: true})
	no(t, err)
	start := time.Now()
	no(t, s.Close())
	if took := time.Since(start); took > time.Second {
		t.Errorf("closed after %s", took)
	}
	server.Thaw()
}

func TestBadURLs(t *testing.T) {
	for _, url := range []string{"", "mysql://x", "sqlite:", "sqlite:/nowhere/at/all/x.db", "postgres://u:canary-Jx7@h:port/d"} {
		s, err := Open(bg(), url, Options{})
		if err == nil {
			t.Errorf("%q is opened", url)
			_ = s.Close()
		} else if strings.Contains(err.Error(), "canary") {
			t.Error(err)
		}
	}
}
