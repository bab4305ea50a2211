package rig

import (
	"io"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Wiretap forwards the connections of clients to the gateway and keeps what both
// sides send.
type Wiretap struct {
	URL       string
	Sent, Got *Log // by the client, and by the gateway
}

// NewWiretap listens in front of a server until t ends.
func NewWiretap(t *testing.T, url string) *Wiretap {
	t.Helper()
	w := &Wiretap{Sent: &Log{}, Got: &Log{}}
	p, err := testrig.NewProxy(strings.TrimPrefix(url, "http://"), func(requests, responses io.Reader) (io.Reader, io.Reader) {
		return io.TeeReader(requests, w.Sent), io.TeeReader(responses, w.Got)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w.URL = "http://" + p.Addr
	return w
}
