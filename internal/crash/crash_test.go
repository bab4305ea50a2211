package crash

import (
	"context"
	"log/slog"
	"strings"
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
