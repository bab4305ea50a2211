package testrig

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Patience is far longer than anything takes on a busy machine. It only ends a test that
// would otherwise wait for ever.
const Patience = 2 * time.Minute

// Eventually waits for a condition that another goroutine or another process meets. The
// test fails if that does not happen; what names the condition.
func Eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	if err := Until(context.Background(), Patience, "timed out waiting for: "+what, met); err != nil {
		t.Fatal(err)
	}
}

// EventuallyNil waits until a function returns no error.
func EventuallyNil(t testing.TB, what string, try func() error) {
	t.Helper()
	var last error
	if err := Until(context.Background(), Patience, "timed out waiting for: "+what, func() bool { last = try(); return last == nil }); err != nil {
		t.Fatalf("%v; the last error is: %v", err, last)
	}
}

// Until waits for a condition. If it is not met in time, the error has the message.
//
// It checks often at first and then less often, so that many waiting tests leave a busy
// machine to what they wait for.
func Until(ctx context.Context, within time.Duration, message string, met func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for !met() {
		next.Reset(min(max(time.Since(began)/20, time.Millisecond), 20*time.Millisecond))
		select {
		case <-next.C:
		case <-ctx.Done():
			return fmt.Errorf("%s within %v: %w", message, within, context.Cause(ctx))
		}
	}
	return nil
}

// Pause waits for a time or for the end of the context.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
