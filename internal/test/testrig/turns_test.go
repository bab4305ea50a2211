package testrig

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestTurns checks that a condition which is never met is waited for until the gateway has
// answered the requests of the time, and one that is met, no longer.
func TestTurns(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	g := &Gateway{URL: server.URL}
	if _, met := g.Within(t.Context(), 20*turnPause, func() bool { return false }); met {
		t.Error("a condition that is never met is met")
	}
	if n := served.Load(); n != 21 { // and the one that opens the connection
		t.Errorf("the gateway answered %d requests, want 21", n)
	}
	served.Store(0)
	if _, met := g.Within(t.Context(), time.Hour, func() bool { return served.Load() >= 5 }); !met {
		t.Error("a condition that is met is not met")
	}
}
