package capture

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestFalseGateway attaches to programs that listen in the place of a gateway: none sends without end.
func TestFalseGateway(t *testing.T) {
	testrig.SocketFolder(t)
	l, err := local.Listen("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	const piece = 64 << 10
	answers := map[string][2]string{ // the beginning of a response, and what follows without end
		"a text":      {`{"exchange":{"id":"`, strings.Repeat("x", piece)},
		"white space": {"", strings.Repeat(" ", piece)},
		"lists":       {`{"exchange":`, strings.Repeat("[", piece)},
		"objects":     {"", strings.Repeat(`{"exchange":`, piece/12)},
		"members":     {`{"a":0`, strings.Repeat(`,"b":0`, piece/6)},
	}
	type sending struct {
		answer [2]string
		sent   atomic.Int64
	}
	var current atomic.Pointer[sending] // a handler may still run when the next answer is tried
	s := &http.Server{Handler: local.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mine := current.Load()
		for text := mine.answer[0]; ; text = mine.answer[1] {
			n, err := io.WriteString(w, text)
			if mine.sent.Add(int64(n)); err != nil || mine.sent.Load() > 1<<30 {
				return
			}
		}
	})), ConnContext: local.ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { _ = s.Close(); <-done }()
	for name, a := range answers {
		now := &sending{answer: a}
		current.Store(now)
		err := Attach(t.Context(), l.Name(), Filter{All: true, Count: 1, Bytes: 1000}, Handler{Attached: func() {}, Missed: func(int64, int64) {}, Exchange: func(*Exchange) error { return nil }})
		if err == nil {
			t.Errorf("%s: an exchange was received", name)
		}
		if n := now.sent.Load(); n > 2*maxRest {
			t.Errorf("%s: %d bytes were read", name, n)
		}
	}
}

// FuzzReceive reads any bytes as the exchanges of a gateway: no more than were asked for.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"attached":true}{"exchange":{"id":"x"}}{"oversized":1,"dropped":2}{"stopping":true}`))
	f.Add([]byte(`{"exchange":{}}{"exchange":null}{"exchange":{}}{"exchange":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := 0
		n, err := receive(bytes.NewReader(text), Filter{Count: 2, Bytes: 10}, Handler{Attached: func() {}, Missed: func(int64, int64) {}, Exchange: func(x *Exchange) error {
			if got++; x == nil {
				t.Error("no exchange")
			}
			return nil
		}})
		if n != got || n > 2 || n < 2 && err == nil {
			t.Errorf("%d exchanges, %d were given, %v", n, got, err)
		}
	})
}
