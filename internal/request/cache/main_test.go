package cache

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = bytes.Repeat([]byte("s"), minSecret)

// clock is a clock that a test sets.
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

func openRedis(t testing.TB, url string) *Redis { return openRedisFor(t, url, 0) }

// openRedisFor opens a Redis whose calls may take the given time.
func openRedisFor(t testing.TB, url string, timeout time.Duration) *Redis {
	t.Helper()
	c, err := redis.New(redis.Options{URL: url, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r, err := NewRedis(RedisOptions{Client: c, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// eventually polls until done returns true, and fails the test after a timeout.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	testrig.Eventually(t, what, done)
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

// response returns a response of a typical size.
func response(text string) *Response {
	return &Response{Status: http.StatusOK, Body: []byte(text), At: time.Now(),
		Header: http.Header{"Content-Type": {"application/json"}, "Isogloss-Target": {"openai/gpt"}, "Set-Cookie": {"a=b"}}}
}

func request(body string) *Request {
	return &Request{Endpoint: "chat_completions", Dialect: "openai-chat", Path: "/v1/chat/completions", Route: "r1", Body: []byte(body)}
}

// stores are the implementations of Store.
func stores(t *testing.T) map[string]Store {
	return map[string]Store{"memory": openMemory(t, 0), "redis": openRedis(t, storetest.Redis(t).URL)}
}

// lockers are the implementations of Locks.
func lockers(t *testing.T) map[string]Locks {
	return map[string]Locks{"memory": NewRecords(0), "redis": openRedis(t, storetest.Redis(t).URL)}
}
