package relay

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
)

// muteListener has connections that can lose everything that is written to them. A new connection loses nothing.
type muteListener struct {
	net.Listener
	lost atomic.Bool
}

func (l *muteListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.lost.Store(false)
	return mute{c, l}, err
}

type mute struct {
	net.Conn
	*muteListener
}

func (m mute) Write(p []byte) (int, error) {
	if m.lost.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func (m mute) Close() error { return m.Conn.Close() }

// TestSilentConnection sends a request to a model with one target, whose HTTP/2 connection goes silent before the
// response. It is sent once more only if the operator allows that, and not a third time.
func TestSilentConnection(t *testing.T) {
	for _, test := range []struct {
		allowed bool
		silent  int32 // requests
		status  int
		asked   int32
	}{{false, 1, http.StatusBadGateway, 1}, {true, 1, http.StatusOK, 2}, {true, 2, http.StatusBadGateway, 2}} {
		inBubble(t, func(t bubble) {
			var asked atomic.Int32
			l := &muteListener{Listener: t.network.Listen()}
			srv := &httptest.Server{Listener: l, EnableHTTP2: true, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if asked.Add(1) <= test.silent {
					l.lost.Store(true)
					<-r.Context().Done()
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, plainResponse)
			})}}
			srv.StartTLS()
			defer srv.Close()
			g := newGateway(t, func(g *gateway) {
				g.provider.BaseURL = &url.URL{Scheme: "https", Host: l.Listener.Addr().String(), Path: "/v1"}
				g.state.Retries = exchange.Retries{Attempts: 3, SameTargetUnanswered: test.allowed}
			})
			tr := upstream.NewTransport(g.provider.Timeouts.Connect)
			tr.Proxy, tr.DialContext, tr.TLSClientConfig = nil, t.network.DialContext, srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			g.relay.client.SetTransport(g.provider.Timeouts.Connect, tr)
			defer g.relay.client.Close()
			resp, body, err := g.post(t, chatPath, plainRequest)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != test.status || asked.Load() != test.asked || (test.status != http.StatusOK) != strings.Contains(body, upstream.CodeSilent) {
				t.Errorf("%+v: %s %s; asked %d times", test, resp.Status, body, asked.Load())
			}
		})
	}
}
