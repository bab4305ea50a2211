package consume

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestWatchLog checks that settings of the log are read when its servers answer, that what is wrong is logged once and is in
// the metrics, and that it goes away.
func TestWatchLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged testrig.Log
		answers := [][]string{nil, nil, {"min.insync.replicas=1"}, {"min.insync.replicas=1"}, nil}
		calls := 0
		c := &Consumer{o: Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)), Weaknesses: func(context.Context) ([]string, error) {
			calls++
			if calls <= 2 {
				return nil, errors.New("no broker answers")
			}
			return answers[min(calls, len(answers))-1], nil
		}}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.watchLog(ctx)
		}()
		value := func() string {
			w := httptest.NewRecorder()
			c.writeMetrics(w)
			_, after, _ := strings.Cut(w.Body.String(), "\nisogloss_consume_log_weaknesses ")
			n, _, _ := strings.Cut(after, "\n")
			return n
		}
		for _, step := range []struct {
			wait  time.Duration
			value string
			lines int
			last  string
		}{
			{0, "0", 1, "no broker answers"},
			{weakRetry, "0", 1, ""},
			{weakRetry, "1", 2, "min.insync.replicas=1"},
			{weakAgain, "1", 2, ""},
			{weakAgain, "0", 3, "keeps what it has acknowledged"},
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			if n := strings.Count(logged.String(), "\n"); value() != step.value || n != step.lines || !strings.Contains(logged.String(), step.last) {
				t.Errorf("after %v: %s, %d lines\n%s", step.wait, value(), n, logged.String())
			}
		}
		cancel()
		<-done
	})
}
