package nodes

import (
	"context"
	"errors"
	"log/slog"
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

func TestCompare(t *testing.T) {
	here := "listen a\nretries attempts=3\nprovider x auth=none\nmodel m owned_by=x\n  target x/1 weight=1\n  target x/2 weight=1\nmodel n owned_by=x\n  target x/1 weight=1\n"
	there := "listen a\nretries attempts=2\nprovider x auth=none\nprovider y auth=none\nmodel m owned_by=x\n  target x/2 weight=1\n"
	want := []Difference{
		{"retries", "attempts=3", "attempts=2"},
		{"model m, target", "x/1 weight=1", "x/2 weight=1"},
		{"model m, target 2", "x/2 weight=1", ""},
		{"model n", "owned_by=x", ""},
		{"model n, target", "x/1 weight=1", ""},
		{"provider y", "", "auth=none"},
	}
	if got := Compare(here, there); !slices.Equal(got, want) {
		t.Errorf("the differences are %+v", got)
	}
	if got := Compare(here, here); got != nil {
		t.Errorf("a configuration differs from itself: %+v", got)
	}
	if Text("listen a\nnode gw-1\nzone z\n") != "listen a\nzone z\n" {
		t.Error("the name of the node is compared")
	}
}
