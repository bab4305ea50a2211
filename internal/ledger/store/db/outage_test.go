package db

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestOwnDeadline checks that a call without a deadline ends by the database's timeout.
func TestOwnDeadline(t *testing.T) {
	server := storetest.Postgres(t)
	d := opened(t, server.URL, Options{Migrate: true, Timeout: 2 * time.Second})
	eventually(t, "the database is up", func() error { return notes(d) })
	server.Freeze()
	if err := notes(d); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want a timeout", err)
	}
	server.Thaw()
}

// TestServerComesLater opens a database while its server is down. Calls fail until the server is up.
func TestServerComesLater(t *testing.T) {
	server := storetest.Postgres(t)
	server.Kill()
	url := strings.Replace(server.URL, "postgres@", "postgres:canary-Jx7@", 1)
	d := opened(t, url, Options{Migrate: true})
	err := notes(d)
	if err == nil {
		t.Fatal("no error")
	}
	if strings.Contains(err.Error(), "canary") || d.Ready() == nil {
		t.Errorf("ready: %v; %v", d.Ready(), err)
	}
	no(t, server.Start())
	eventually(t, "the database is up", func() error { return notes(d) })
}

// TestCloseWhileFrozen closes a database while its server is frozen.
func TestCloseWhileFrozen(t *testing.T) {
	server := storetest.Postgres(t)
	server.Freeze()
	d, err := Open(server.URL, Options{Schema: schema, Migrate: true})
	no(t, err)
	no(t, d.Close()) // returns though the server does not respond
	server.Thaw()
}

func TestBadURLs(t *testing.T) {
	for _, url := range []string{"", "mysql://x", "sqlite:", "sqlite:/nowhere/at/all/x.db", "postgres://u:canary-Jx7@h:port/d"} {
		d, err := Open(url, Options{Schema: schema})
		if err == nil {
			t.Errorf("%q is opened", url)
			_ = d.Close()
		} else if strings.Contains(err.Error(), "canary") {
			t.Error(err)
		}
	}
}
