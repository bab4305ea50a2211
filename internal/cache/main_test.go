package cache

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = bytes.Repeat([]byte("s"), minSecret)

// clock is one that a test moves.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time           { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(by time.Duration) { c.ns.Add(int64(by)) }

func openMemory(t testing.TB, size int64) *Memory {
	t.Helper()
	m, err := NewMemory(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func openRedis(t testing.TB, url string) *Redis {
	t.Helper()
	r, err := NewRedis(RedisOptions{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// eventually waits for what another goroutine or process does.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s did not happen", what)
		}
	}
}

func newCache(t testing.TB, s Store, now func() time.Time) *Cache {
	t.Helper()
	c, err := New(s, Options{Secret: secret, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newOnce(t testing.TB, l Locks, now func() time.Time) *Once {
	t.Helper()
	n, err := NewOnce(l, OnceOptions{Secret: secret, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// answer is one of about the usual size.
func answer(text string) *Answer {
	return &Answer{Status: http.StatusOK, Body: []byte(text), At: time.Now(),
		Header: http.Header{"Content-Type": {"application/json"}, "Isogloss-Target": {"openai/gpt"}, "Set-Cookie": {"a=b"}}}
}

func request(body string) *Request {
	return &Request{Endpoint: "chat_completions", Dialect: "openai-chat", Path: "/v1/chat/completions", Route: "r1", Body: []byte(body)}
}

// stores are the places of cached answers.
func stores(t *testing.T) map[string]Store {
	return map[string]Store{"memory": openMemory(t, 0), "redis": openRedis(t, storetest.Redis(t).URL)}
}

// lockers are the places of records.
func lockers(t *testing.T) map[string]Locks {
	return map[string]Locks{"memory": NewRecords(0), "redis": openRedis(t, storetest.Redis(t).URL)}
}
