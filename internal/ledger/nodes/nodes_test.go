package nodes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// fakeStore and fakeSelf are used by the test and the reporter in turns. mu is for the race detector.
type fakeStore struct {
	mu    sync.Mutex
	calls []string
	last  store.Node
	err   error
}

func (s *fakeStore) AddNode(_ context.Context, n store.Node, text string) error {
	return s.note("add "+text, n)
}

func (s *fakeStore) UpdateNode(_ context.Context, n store.Node, text string) error {
	return s.note("update "+text, n)
}

func (s *fakeStore) note(call string, n store.Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.last = append(s.calls, call), n
	return s.err
}

type fakeSelf struct{ config atomic.Pointer[string] }

func (s *fakeSelf) Node() store.Node {
	return store.Node{ID: "a.1", Seen: time.Now(), Config: Digest(s.Config())}
}
func (s *fakeSelf) Config() string { return *s.config.Load() }

// TestRun reports a node while the store is down, its configuration changes and it stops.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, self := &fakeStore{err: errors.New("down")}, &fakeSelf{}
		self.config.Store(new("one"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(ctx, s, self, slog.New(slog.DiscardHandler))
		}()
		synctest.Wait()
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		pass := func() {
			time.Sleep(Interval)
			synctest.Wait()
		}
		pass()
		pass()
		self.config.Store(new("two"))
		pass()
		pass()
		s.mu.Lock()
		stopped := s.last.Stopped
		s.mu.Unlock()
		if !stopped.IsZero() {
			t.Error("a running node says that it has stopped")
		}
		cancel()
		<-ended
		want := []string{"add one", "add one", "update ", "update two", "update ", "update "}
		if !slices.Equal(s.calls, want) {
			t.Errorf("the calls are %q, want %q", s.calls, want)
		}
		if s.last.Stopped.IsZero() {
			t.Error("the end is not reported")
		}
	})
}

// TestCompare compares configurations that are encoded, and that the version before wrote as text.
func TestCompare(t *testing.T) {
	here := map[string]string{"listen": "a", "retries.attempts": "3", "models.n.targets[0].target": "x: 1", "node": "gw-1"}
	there := map[string]string{"listen": "a", "retries.attempts": "2", "providers.y.auth": "none\nbearer", "node": "gw-2"}
	want := []Difference{{"models.n.targets[0].target", "x: 1", ""}, {"providers.y.auth", "", "none\nbearer"}, {"retries.attempts", "3", "2"}}
	a, b := Encode(maps.All(here)), Encode(maps.All(there))
	if got, err := Compare(a, b); err != nil || !slices.Equal(got, want) {
		t.Errorf("the differences are %+v, %v", got, err)
	}
	if got, err := Compare(a, Encode(maps.All(here))); err != nil || got != nil {
		t.Errorf("a configuration differs from itself: %+v, %v", got, err)
	}
	if got := Text(b); got != "listen: a\nproviders.y.auth: none bearer\nretries.attempts: 2\n" {
		t.Errorf("the text is %q", got)
	}
	const before = "listen a\nretries attempts=3\n"
	if _, err := Compare(a, before); !errors.Is(err, ErrOtherForm) || Text(before) != before {
		t.Errorf("the text of the version before: %v", err)
	}
}
