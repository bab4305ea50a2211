package cache

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestCache(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, store, nil)
			q := request(`{"model":"m"}`)
			mine := c.Key(Tenant("a", "k"), q)
			if got := c.Get(t.Context(), mine); got != nil {
				t.Fatalf("an empty cache has %+v", got)
			}
			want := response("hello")
			if !c.Put(mine, want) {
				t.Fatal("the response was not kept")
			}
			var got *Response
			eventually(t, "the hit", func() bool { c.Put(mine, want); got = c.Get(t.Context(), mine); return got != nil })
			if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) || !got.At.Equal(want.At) || got.Stream != want.Stream {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got.Header.Get("Set-Cookie") != "" || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("headers are %v", got.Header)
			}
			for other, k := range map[string]Key{
				"tenant": c.Key(Tenant("b", "k"), q),
				"key":    c.Key(Tenant("", "k"), q),
				"body":   c.Key(Tenant("a", "k"), request(`{"model": "m"}`)),
			} {
				if c.Get(t.Context(), k) != nil {
					t.Errorf("another %s hits", other)
				}
			}
		})
	}
}

// TestNoCrossHits checks that two tenants that send the same requests never get each
// other's responses.
func TestNoCrossHits(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, store, nil)
			const requests = 200
			ask := func(i int) *Request { return request(fmt.Sprintf(`{"n":%d}`, i)) }
			for i := range requests {
				want, k := fmt.Sprintf("a%d", i), c.Key(Tenant("a", ""), ask(i))
				var got *Response
				eventually(t, "a hit", func() bool { c.Put(k, response(want)); got = c.Get(t.Context(), k); return got != nil })
				if string(got.Body) != want {
					t.Fatalf("a got %q, want %q", got.Body, want)
				}
			}
			for i := range requests {
				if got := c.Get(t.Context(), c.Key(Tenant("b", ""), ask(i))); got != nil {
					t.Fatalf("b got %q", got.Body)
				}
			}
		})
	}
}

// TestCrossedReply checks that a value stored under another key is a miss.
func TestCrossedReply(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, store, nil)
			a, b := c.Key("a", request("")), c.Key("b", request(""))
			r := record{kind: full, key: a, at: time.Now(), response: response("a's")}
			eventually(t, "the write", func() bool { store.Put(b, r.encode(), time.Minute); return store.Get(t.Context(), b) != nil })
			if got := c.Get(t.Context(), b); got != nil {
				t.Errorf("b got %q", got.Body)
			}
		})
	}
}

func TestPutRejects(t *testing.T) {
	c := newCache(t, openMemory(t, 0), nil)
	for name, spoil := range map[string]func(*Response){
		"error":     func(a *Response) { a.Status = http.StatusBadGateway },
		"created":   func(a *Response) { a.Status = http.StatusCreated },
		"empty":     func(a *Response) { a.Body = nil },
		"too large": func(a *Response) { a.Body = make([]byte, DefaultMax+1) },
	} {
		a := response("x")
		spoil(a)
		k := c.Key("t", request(name))
		if c.Put(k, a) || c.Get(t.Context(), k) != nil {
			t.Errorf("%s: it was stored", name)
		}
	}
}

func TestExpiry(t *testing.T) {
	clock := newClock()
	c := newCache(t, openMemory(t, 0), clock.now)
	k := c.Key("t", request(""))
	a := response("x")
	a.At = clock.now()
	c.Put(k, a)
	clock.advance(DefaultTTL)
	if got := c.Get(t.Context(), k); got == nil || got.Age(clock.now()) != 600 {
		t.Fatalf("got %+v before its time was over", got)
	}
	clock.advance(time.Second)
	if c.Get(t.Context(), k) != nil {
		t.Error("a response is returned after its TTL")
	}
}

// TestMemoryBound checks that memory stays within its limit.
func TestMemoryBound(t *testing.T) {
	const size = 4 << 20
	m := openMemory(t, size)
	c := newCache(t, m, nil)
	body := string(make([]byte, 10_000))
	for i := range 2000 {
		c.Put(c.Key("t", request(fmt.Sprint(i))), response(body))
	}
	m.values.CleanUp()
	bytes, responses := m.Size()
	if bytes > size || responses < size/2/10_000 {
		t.Errorf("%d bytes are stored for %d responses; the limit is %d", bytes, responses, size)
	}
}

func TestRecorder(t *testing.T) {
	r := NewRecorder(10)
	for range 3 {
		if n, err := r.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if b, ok := r.Body(); !ok || string(b) != "abcabcabc" {
		t.Errorf("got %q, %v", b, ok)
	}
	if n, err := r.Write([]byte("de")); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if b, ok := r.Body(); ok || b != nil {
		t.Errorf("got %q of a response above the limit", b)
	}
}
