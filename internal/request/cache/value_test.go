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
		response: &Response{Status: 200, Stream: true, At: time.Unix(1_700_000_000, 5), Body: []byte("data: x\n\n"),
			Header: http.Header{"Content-Type": {"text/event-stream"}, "Isogloss-Target": {"a/b"}}}}
}

func TestValue(t *testing.T) {
	for _, k := range []kind{running, lost, full} {
		want := sample()
		if want.kind = k; k != full {
			want.response = nil
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

// TestStoredHeaders checks that only the listed headers are stored, and none with a
// control character.
func TestStoredHeaders(t *testing.T) {
	r := sample()
	r.response.Header = http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"s"}, "X-Request-Id": {"i"}, "Retry-After": {"1"},
		"Isogloss-Target": {"a\r\nb"}, "Isogloss-Fidelity": {strings.Repeat("m", maxHeader+1)}}
	got, err := decode(r.encode(), r.key)
	if err != nil {
		t.Fatal(err)
	}
	if want := (http.Header{"Content-Type": {"application/json"}}); !reflect.DeepEqual(got.response.Header, want) {
		t.Errorf("got %v, want %v", got.response.Header, want)
	}
}

func TestValueOfAnotherKey(t *testing.T) {
	if _, err := decode(sample().encode(), Key{9}); err == nil {
		t.Error("a value of another key was accepted")
	}
}

func TestValueCut(t *testing.T) {
	b := sample().encode()
	for n := range b {
		if _, err := decode(b[:n], sample().key); err == nil {
			t.Errorf("a value cut to %d of %d bytes was accepted", n, len(b))
		}
	}
	if _, err := decode(append(b, 0), sample().key); err == nil {
		t.Error("a value with an extra byte was accepted")
	}
}

func TestSpend(t *testing.T) {
	want := sample()
	got, err := decode(dropResponse(want.encode()), want.key)
	if err != nil || got.kind != lost || got.digest != want.digest || got.response != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// FuzzValue checks that an accepted value encodes to the same bytes.
func FuzzValue(f *testing.F) {
	for _, k := range []kind{running, lost, full} {
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
