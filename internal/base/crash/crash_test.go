package crash

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDo checks that a panic is logged once, with its place and without its value.
func TestDo(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if !Do(logger, func() {}) || log.Len() > 0 {
		t.Errorf("a function that returns: %s", log.String())
	}
	if Do(logger, func() { panic("canary") }, "id", "42") {
		t.Error("a panic is reported as a return")
	}
	for text, want := range map[string]int{"msg=panic": 1, "id=42": 1, "crash_test.go": 1, "canary": 0} {
		if n := strings.Count(log.String(), text); min(n, 1) != want {
			t.Errorf("%s is in the log %d times:\n%s", text, n, log.String())
		}
	}
}

// TestKeep checks that a loop runs again after a panic, and ends with its context.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		runs, began := 0, time.Now()
		Keep(t.Context(), logger, func() {
			if runs++; runs < 3 {
				panic("again")
			}
		})
		if took := time.Since(began); runs != 3 || took != 2*Pause {
			t.Errorf("%d runs in %v, want 3 in %v", runs, took, 2*Pause)
		}
		ctx, end := context.WithCancel(t.Context())
		Keep(ctx, logger, func() {
			end()
			panic("for good")
		})
	})
}

// TestServerLog checks that a panic of a handler aborts the response and is logged without its
// value, and that http.ErrAbortHandler is not logged.
func TestServerLog(t *testing.T) {
	for _, c := range []struct {
		value any
		want  int // lines
	}{{"canary", 1}, {"x: panic serving y: \ngoroutine 1 canary\n", 1}, {http.ErrAbortHandler, 0}, {nil, 0}} {
		var log syncBuilder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if c.value != nil {
				panic(c.value)
			}
		}))
		s.Config.ErrorLog = ServerLog(logger)
		s.Start()
		resp, err := http.Get(s.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		s.Close()
		if (err == nil) != (c.value == nil) {
			t.Errorf("%v: the client gets %v", c.value, err)
		}
		for text, want := range map[string]int{"\n": c.want, "msg=panic": c.want, "crash_test.go": c.want, "canary": 0} {
			if n := strings.Count(log.String(), text); min(n, 1) != want {
				t.Errorf("%v: %q is in the log %d times:\n%s", c.value, text, n, log.String())
			}
		}
	}
}

// syncBuilder is a text that several goroutines write.
type syncBuilder struct {
	mu sync.Mutex
	strings.Builder
}

func (b *syncBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *syncBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.String()
}
