package cache

import (
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() *record {
	return &record{kind: full, key: Key{1, 2}, token: token{3}, digest: Key{4}, at: time.Unix(1_700_000_000, 5),
		answer: &Answer{Status: 200, Stream: true, At: time.Unix(1_700_000_000, 5), Body: []byte("data: x\n\n"),
			Header: http.Header{"Content-Type": {"text/event-stream"}, "Isogloss-Target": {"a/b"}}}}
}

func TestValue(t *testing.T) {
	for _, k := range []kind{running, spent, full} {
		want := sample()
		if want.kind = k; k != full {
			want.answer = nil
		}
		got, err := decode(want.encode(), want.key)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d: got %+v, want %+v", k, got, want)
		}
	}
}

// Only headers that belong to the answer are kept, and none that could break a line.
func TestHeadersKept(t *testing.T) {
	r := sample()
	r.answer.Header = http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"s"}, "X-Request-Id": {"i"}, "Retry-After": {"1"},
		"Isogloss-Target": {"a\r\nb"}, "Openai-Model": {strings.Repeat("m", maxHeader+1)}}
	got, err := decode(r.encode(), r.key)
	if err != nil {
		t.Fatal(err)
	}
	if want := (http.Header{"Content-Type": {"application/json"}}); !reflect.DeepEqual(got.answer.Header, want) {
		t.Errorf("got %v, want %v", got.answer.Header, want)
	}
}

func TestValueOfAnotherKey(t *testing.T) {
	if _, err := decode(sample().encode(), Key{9}); err == nil {
		t.Error("a value was taken that belongs to another key")
	}
}

func TestValueCut(t *testing.T) {
	b := sample().encode()
	for n := range b {
		if _, err := decode(b[:n], sample().key); err == nil {
			t.Errorf("a value cut to %d of %d bytes was taken", n, len(b))
		}
	}
	if _, err := decode(append(b, 0), sample().key); err == nil {
		t.Error("a value with a byte too many was taken")
	}
}

func TestSpend(t *testing.T) {
	want := sample()
	got, err := decode(spend(want.encode()), want.key)
	if err != nil || got.kind != spent || got.digest != want.digest || got.answer != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Whatever is accepted is written again as it was: there is one way to write a value.
func FuzzValue(f *testing.F) {
	for _, k := range []kind{running, spent, full} {
		r := sample()
		r.kind = k
		f.Add(r.encode())
	}
	f.Add([]byte{format})
	f.Fuzz(func(t *testing.T, b []byte) {
		var at Key
		if len(b) >= mineLen {
			copy(at[:], b[2:])
		}
		r, err := decode(b, at)
		if err != nil {
			return
		}
		if again := r.encode(); !bytes.Equal(again, b) {
			t.Errorf("got\n%x\nfrom\n%x", again, b)
		}
	})
}
