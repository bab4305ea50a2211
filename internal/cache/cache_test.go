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
			want := answer("hello")
			if !c.Put(mine, want) {
				t.Fatal("the answer was not kept")
			}
			var got *Answer
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

// Two tenants that send the same requests never get each other's answers.
func TestNoCrossHits(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, store, nil)
			const requests = 200
			ask := func(i int) *Request { return request(fmt.Sprintf(`{"n":%d}`, i)) }
			for i := range requests {
				want, k := fmt.Sprintf("a%d", i), c.Key(Tenant("a", ""), ask(i))
				var got *Answer
				eventually(t, "a hit", func() bool { c.Put(k, answer(want)); got = c.Get(t.Context(), k); return got != nil })
				if string(got.Body) != want {
					t.Fatalf("a was given %q, want %q", got.Body, want)
				}
			}
			for i := range requests {
				if got := c.Get(t.Context(), c.Key(Tenant("b", ""), ask(i))); got != nil {
					t.Fatalf("b was given %q", got.Body)
				}
			}
		})
	}
}

// A store that returns what belongs elsewhere is a store that has nothing.
func TestCrossedReply(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, store, nil)
			a, b := c.Key("a", request("")), c.Key("b", request(""))
			r := record{kind: full, key: a, at: time.Now(), answer: answer("a's")}
			eventually(t, "the write", func() bool { store.Put(b, r.encode(), time.Minute); return store.Get(t.Context(), b) != nil })
			if got := c.Get(t.Context(), b); got != nil {
				t.Errorf("b was given %q", got.Body)
			}
		})
	}
}

func TestWhatIsKept(t *testing.T) {
	c := newCache(t, openMemory(t, 0), nil)
	for name, spoil := range map[string]func(*Answer){
		"error":     func(a *Answer) { a.Status = http.StatusBadGateway },
		"created":   func(a *Answer) { a.Status = http.StatusCreated },
		"empty":     func(a *Answer) { a.Body = nil },
		"too large": func(a *Answer) { a.Body = make([]byte, DefaultMax+1) },
	} {
		a := answer("x")
		spoil(a)
		k := c.Key("t", request(name))
		if c.Put(k, a) || c.Get(t.Context(), k) != nil {
			t.Errorf("%s: it was kept", name)
		}
	}
}

func TestExpiry(t *testing.T) {
	clock := newClock()
	c := newCache(t, openMemory(t, 0), clock.now)
	k := c.Key("t", request(""))
	a := answer("x")
	a.At = clock.now()
	c.Put(k, a)
	clock.advance(DefaultTTL)
	if got := c.Get(t.Context(), k); got == nil || got.Age(clock.now()) != 600 {
		t.Fatalf("got %+v before its time was over", got)
	}
	clock.advance(time.Second)
	if c.Get(t.Context(), k) != nil {
		t.Error("an answer is given that is too old")
	}
}

// Memory stays within its bytes, whatever is put.
func TestMemoryBound(t *testing.T) {
	const size = 4 << 20
	m := openMemory(t, size)
	c := newCache(t, m, nil)
	body := string(make([]byte, 10_000))
	for i := range 2000 {
		c.Put(c.Key("t", request(fmt.Sprint(i))), answer(body))
	}
	m.values.CleanUp()
	bytes, answers := m.Size()
	if bytes > size || answers < size/2/10_000 {
		t.Errorf("%d bytes are held for %d answers; the bound is %d", bytes, answers, size)
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
		t.Errorf("got %q of an answer that is too large", b)
	}
}
