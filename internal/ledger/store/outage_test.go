package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// callAll calls everything that a node calls, and returns the errors.
func callAll(s *Store, timeout time.Duration) (errs []error) {
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := s.Key(ctx, "k1"); return err },
		func(ctx context.Context) error { _, err := s.Changes(ctx, access.Cursor{}, 100); return err },
		func(ctx context.Context) error { _, err := spentSince(ctx, s, "org:default", noon); return err },
		func(ctx context.Context) error { return put(ctx, s, rows("ee", 10)) },
	} {
		ctx, cancel := context.WithTimeout(bg(), timeout)
		errs = append(errs, call(ctx))
		cancel()
	}
	return errs
}

// allFail reports whether every call fails, and none says that the key does not exist.
func allFail(errs []error) bool {
	return !slices.ContainsFunc(errs, func(err error) bool { return err == nil || errors.Is(err, access.ErrUnknown) })
}

// eventually waits for a condition that depends on another process.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	testrig.EventuallyNil(t, what, ok)
}

// back waits until all calls succeed.
func back(t *testing.T, s *Store) {
	t.Helper()
	eventually(t, "the store is back", func() error { return errors.Join(callAll(s, patient)...) })
}

// patient is a timeout that a busy machine does not reach.
const patient = 30 * time.Second

// TestOutage checks that calls fail, and end by their deadline, while the server is frozen or dead, and
// succeed when it is back.
func TestOutage(t *testing.T) {
	server := storetest.Postgres(t)
	s := opened(t, server.URL, Options{Migrate: true, Timeout: patient})
	no(t, s.CreateKey(bg(), sampleKey("k1")))

	// All connections are in use when it freezes.
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 32 { // twice the connections of a node
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
	server.Freeze()
	for range 5 {
		if errs := callAll(s, 200*time.Millisecond); !allFail(errs) { // each call returns by its deadline, or the test hangs
			t.Errorf("frozen: %v", errs)
		}
	}
	close(stop)
	load.Wait()
	server.Thaw()
	back(t, s)

	server.Kill()
	if errs := callAll(s, patient); !allFail(errs) || errors.Is(errors.Join(errs...), context.DeadlineExceeded) {
		t.Errorf("killed, calls do not fail at once: %v", errs)
	}
	no(t, server.Start())
	back(t, s)
	if n := count(t, s, "requests"); n != 10 {
		t.Errorf("%d rows", n)
	}

	server.Kill()
	no(t, server.Wipe())
	no(t, server.Start())
	empty(t, s) // it has no tables, and then no key
}

// empty waits until the store reports that the key does not exist.
func empty(t *testing.T, s *Store) {
	t.Helper()
	eventually(t, "the store is up and has no key", func() error {
		_, err := s.Key(bg(), "k1")
		if errors.Is(err, access.ErrUnknown) {
			return nil
		}
		return cmp.Or(err, errors.New("the key exists"))
	})
}
