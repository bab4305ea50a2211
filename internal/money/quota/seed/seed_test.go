package seed

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// shortLedger knows one sum fewer than it is asked for.
type shortLedger struct{}

// Spent implements Ledger.
func (shortLedger) Spent(_ context.Context, _ string, since ...time.Time) (Spent, error) {
	return Spent{Since: make([]usage.Money, len(since)-1)}, nil
}

// TestMissingSums checks that an account is not seeded from a response in which sums are missing.
func TestMissingSums(t *testing.T) {
	s := New(shortLedger{}, slog.New(slog.DiscardHandler))
	defer s.Close()
	for _, window := range []time.Duration{0, time.Hour} {
		if _, err := s.query(Account{ID: "a", Owner: "a", Window: window}, time.Now()); !errors.Is(err, errLedger) {
			t.Errorf("window %s: the error is %v", window, err)
		}
	}
}
