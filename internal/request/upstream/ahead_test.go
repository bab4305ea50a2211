package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestReadAhead checks that a connection reads ahead in a burst, keeps the order of the bytes
// for small and large reads, and has no buffer when nothing is left.
func TestReadAhead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := dialer(time.Minute, func(string) error { return nil })(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	c := dialed.(*conn)
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	sent := make([]byte, 10<<10)
	for i := range sent {
		sent[i] = byte(i / 7)
	}
	if _, err := peer.Write(sent); err != nil {
		t.Fatal(err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "all bytes have arrived", func() (arrived bool) {
		_ = raw.Control(func(fd uintptr) {
			n, _, err := syscall.Recvfrom(int(fd), make([]byte, len(sent)), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			arrived = err == nil && n == len(sent)
		})
		return arrived
	})
	var got []byte
	for _, size := range []int{1 << 10, 1 << 10, 5 << 10, 64 << 10} {
		p := make([]byte, size)
		n, err := c.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p[:n]...)
		if len(got) == 2<<10 && c.ahead == nil {
			t.Error("the second read has read nothing ahead")
		}
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes arrived, or in another order; %d were sent", len(got), len(sent))
	}
	if c.ahead != nil {
		t.Error("the connection keeps a buffer without bytes")
	}
}

// TestBodyIsReleasedWithTheHeaders checks that nothing refers to a prompt once the response
// headers have arrived: a stream may last half an hour.
func TestBodyIsReleasedWithTheHeaders(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer s.Close()
	client := NewClient()
	defer client.Close()
	trip := client.RoundTrip(t.Context(), provider.Timeouts{Connect: time.Minute, FirstByte: time.Minute, Idle: time.Minute, Total: time.Minute}, 0)
	defer trip.Close()
	req, err := http.NewRequest(http.MethodPost, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	SetBody(req, []byte("a prompt"))
	if err := trip.Do(req); err != nil {
		t.Fatal(err)
	}
	if got, err := trip.ReadBody(100); err != nil || string(got) != "a prompt" {
		t.Fatalf("the upstream received %q, %v", got, err)
	}
	again, getErr := req.GetBody()
	if getErr != nil {
		t.Fatal(getErr)
	}
	if rest, _ := io.ReadAll(again); len(rest) > 0 {
		t.Errorf("the request still has %q", rest)
	}
}

// TestFreeBody checks that a large response takes the buffer of one before, and that a small
// one does not.
func TestFreeBody(t *testing.T) {
	read := func(size int) []byte {
		b, err := readSized(io.LimitReader(zeros{}, int64(size)), int64(size))
		if err != nil || len(b) != size {
			t.Fatalf("%d bytes, %v; want %d", len(b), err, size)
		}
		return b
	}
	reused := false
	for range 100 { // a pool may lose a buffer
		first := read(100 << 10)
		FreeBody(first)
		if small := read(1 << 10); &small[0] == &first[0] {
			t.Fatal("a small response has a large buffer")
		}
		second := read(50 << 10)
		reused = reused || &second[0] == &first[0]
	}
	if !reused {
		t.Error("no response has taken the buffer of another")
	}
}
