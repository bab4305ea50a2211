package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestBytes checks that requests together get no more bytes than the limit, and that a request
// waits for the bytes of others. A request for more bytes than the limit is refused at once.
func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		free, refusal := l.Bytes.Acquire(t.Context(), 1<<40)
		if refusal != nil {
			t.Fatal("there is a limit before Use")
		}
		free()
		l.Use(Config{Memory: 2000})
		first, refusal := l.Bytes.Acquire(t.Context(), 800)
		if refusal != nil {
			t.Fatal(refusal)
		}
		if _, refusal := l.Bytes.Acquire(t.Context(), 1001); refusal == nil || refusal.Reason != TooLarge {
			t.Errorf("1001 of 1000 bytes: %v", refusal)
		}
		began := time.Now()
		if _, refusal := l.Bytes.Acquire(t.Context(), 300); refusal == nil || refusal.Reason != Memory || refusal.RetryAfter < time.Second {
			t.Errorf("300 bytes beside 800: %v", refusal)
		}
		if waited := time.Since(began); waited != bytesWait {
			t.Errorf("waited for %v", waited)
		}
		time.AfterFunc(time.Second, first)
		began = time.Now()
		second, refusal := l.Bytes.Acquire(t.Context(), 300)
		if refusal != nil || time.Since(began) != time.Second {
			t.Fatalf("%v after %v", refusal, time.Since(began))
		}

		// If the limit is the same after a reload, the bytes that are in use stay counted.
		l.Use(Config{Memory: 2000, Queue: 1})
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, refusal := l.Bytes.Acquire(gone, 800); refusal == nil || refusal.Reason != Cancelled {
			t.Error("a reload released the bytes of open requests")
		}
		second()
		if _, refusal := l.Bytes.Acquire(t.Context(), 1000); refusal != nil {
			t.Error("the released bytes are not available:", refusal)
		}
		l.Use(Config{Memory: -1})
		if _, refusal := l.Bytes.Acquire(t.Context(), 1<<40); refusal != nil {
			t.Error("a limit of -1 is no limit, but:", refusal)
		}
	})
}
