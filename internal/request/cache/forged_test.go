package cache

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestForgedValues writes values to Redis as somebody without the secret could: none of
// them is used, and none makes a run wait for its store.
func TestForgedValues(t *testing.T) {
	s := storetest.Redis(t)
	r := openRedis(t, s.URL)
	cached, err := New(r, Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewOnce(r, OnceOptions{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	c := r.client.Server("").Conn()
	set := func(key string, value []byte) {
		t.Helper()
		if err := c.Do(t.Context(), c.B().Set().Key(key).Value(rueidis.BinaryString(value)).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	q := &Request{Body: []byte("{}")}
	k, one := cached.Key("org:a", q), n.keys.once("caller", "id")
	good := record{kind: full, key: k, at: time.Now(), response: &Response{Status: 200, Body: []byte("forged")}}
	once := record{kind: full, key: one, digest: n.keys.digest(q), at: time.Now(), response: good.response}
	for name, change := range map[string]func([]byte) []byte{
		"without a MAC":   func(b []byte) []byte { return b },
		"with zeros":      func(b []byte) []byte { return append(b, make([]byte, 32)...) },
		"of another use":  func(b []byte) []byte { d := n.keys.digest(&Request{Body: b}); return append(b, d[:]...) },
		"of 8 MiB":        func([]byte) []byte { return bytes.Repeat([]byte("x"), 8<<20) },
		"of one byte":     func([]byte) []byte { return []byte("x") },
		"of another body": func(b []byte) []byte { b = n.keys.seal(b); b[len(b)-40] ^= 1; return b },
	} {
		set(responsePrefix+k.text(), change(good.encode()))
		set(oncePrefix+one.text(), change(once.encode()))
		if got := cached.Get(t.Context(), k); got != nil {
			t.Errorf("a value %s is used: %s", name, got.Body)
		}
		if got := n.Begin(t.Context(), "org:a", "caller", "id", q); got.State != Unavailable {
			t.Errorf("a record %s gives the state %d", name, got.State)
		}
	}
	for _, key := range []string{responsePrefix + k.text(), oncePrefix + one.text()} {
		if err := c.Do(t.Context(), c.B().Del().Key(key).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if err := c.Do(t.Context(), c.B().Lpush().Key(key).Element("x").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if cached.Get(t.Context(), k) != nil || n.Begin(t.Context(), "org:a", "caller", "id", q).State != Unavailable {
		t.Error("a list is used")
	}
	if !r.Snapshot().Up || n.Snapshot().Open != 0 {
		t.Errorf("after forged values Redis is %+v with %+v", r.Snapshot(), n.Snapshot())
	}
	set(responsePrefix+k.text(), n.keys.seal(good.encode()))
	if got := cached.Get(t.Context(), k); got == nil || string(got.Body) != "forged" {
		t.Error("a sealed value is not used")
	}
}

// failing is a store of records that fails.
type failing struct{}

func (failing) Claim(context.Context, Key, Claim) ([]byte, error) { return nil, errValue }

// TestRunsThatCannotBeStored checks that a store that fails for every record does not let
// their number grow.
func TestRunsThatCannotBeStored(t *testing.T) {
	n := &Once{locks: failing{}, keep: time.Hour, now: time.Now, open: map[*Run]struct{}{}, keys: keyring{secret}}
	for range onceOpen + 1000 {
		n.Begin(t.Context(), "", "caller", "id", &Request{})
	}
	if got := n.Snapshot().Open; got > onceOpen {
		t.Errorf("%d runs wait, want at most %d", got, onceOpen)
	}
}
