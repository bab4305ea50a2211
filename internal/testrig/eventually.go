package testrig

import (
	"testing"
	"time"
)

// Patience is far longer than any condition takes on a loaded machine. Only a test that fails waits that long.
const Patience = 2 * time.Minute

// Eventually waits for a condition that another goroutine or process makes true. Tests wait with it instead of sleeping.
func Eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	if err := Until(t.Context(), Patience, what, met); err != nil {
		t.Fatal("it does not happen: ", err)
	}
}

// EventuallyNil waits until a function returns no error.
func EventuallyNil(t testing.TB, what string, try func() error) {
	t.Helper()
	var last error
	if err := Until(t.Context(), Patience, what, func() bool { last = try(); return last == nil }); err != nil {
		t.Fatalf("it does not happen: %v; the last error is: %v", err, last)
	}
}
