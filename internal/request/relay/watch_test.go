package relay

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// countingWatcher is a Watcher that counts its calls.
type countingWatcher struct {
	active, asked int
	on            bool
}

func (o *countingWatcher) Active() bool { o.active++; return o.on }

func (o *countingWatcher) Record(capture.Subject) *capture.Recorder { o.asked++; return nil }

// TestInactiveWatcher checks that a request calls Active once and does not allocate for
// capture while no session is attached.
func TestInactiveWatcher(t *testing.T) {
	for path, body := range map[string]string{chatPath: plainRequest, "/v1/messages": strings.Replace(plainRequest, "{", `{"max_tokens":9,`, 1)} {
		g := newGateway(t)
		g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
		o := &countingWatcher{}
		g.relay.Watch(o)
		if resp, got, err := g.post(t, path, body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err, got)
		}
		if o.active != 1 || o.asked != 0 {
			t.Errorf("%s: asked %d times, followed %d times", path, o.active, o.asked)
		}
	}
	var w Watcher = &capture.Hub{}
	if n := testing.AllocsPerRun(1000, func() {
		if w.Active() {
			t.Error("capture is active")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSubject checks the properties by which a capture filter selects an exchange.
func TestSubject(t *testing.T) {
	g := newGateway(t)
	req := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(plainRequest))
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Request-Id": "r1", "X-Client-Request-Id": "r2", "Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Authorization": "Bearer sk-some-key"} {
		req.Header.Set(name, value)
	}
	req.Host, req.RemoteAddr = "localhost", "127.0.0.1:1"
	e, _, _ := g.relay.dialects.Locate(req)
	q := g.relay.newRequest(g.state, e, httptest.NewRecorder(), req)
	for _, step := range []func() *llm.Error{q.identify, q.accept, q.admit, q.match, q.choose} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	defer q.slot.Release()
	var got capture.Subject
	q.follow(subjects(func(s capture.Subject) { got = s }))
	if got.Model != "real-chat" || got.Key != "" || strings.Join(got.Requests, " ") != "r1 r2 4bf92f3577b34da6a3ce929d0e0e4736" || len(got.Digest) != 64 {
		t.Errorf("got %+v", got)
	}
	q.Record.End()
}

// subjects is a Watcher that receives the subjects.
type subjects func(capture.Subject)

func (subjects) Active() bool { return true }

func (f subjects) Record(s capture.Subject) *capture.Recorder { f(s); return nil }

// attachCapture attaches a capture session to a relay and returns the captured exchanges.
func attachCapture(t testing.TB, r *Relay) <-chan *capture.Exchange {
	t.Helper()
	testrig.SocketFolder(t)
	hub := &capture.Hub{}
	r.Watch(hub)
	l, err := local.Listen("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+capture.Path, capture.NewHandler(capture.Options{Hub: hub, Logger: slog.New(slog.DiscardHandler)}))
	server := &http.Server{Handler: local.Guard(mux), ConnContext: local.ConnContext}
	go func() { _ = server.Serve(l) }()
	ctx, cancel := context.WithCancel(t.Context())
	got, attached, done := make(chan *capture.Exchange, 100), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- capture.Attach(ctx, l.Name(), capture.Filter{All: true, Count: 1000, Bytes: 1 << 20}, capture.Handler{
			Attached: func() { close(attached) },
			Exchange: func(x *capture.Exchange) error { got <- x; return nil },
			Missed:   func(large, busy int64) { t.Errorf("missed %d and %d", large, busy) },
		})
	}()
	<-attached
	t.Cleanup(func() {
		cancel()
		<-done
		_ = server.Shutdown(context.Background())
	})
	return got
}

func next(t testing.TB, got <-chan *capture.Exchange) *capture.Exchange {
	t.Helper()
	select {
	case x := <-got:
		return x
	case <-time.After(never):
		t.Fatal("nothing was captured")
		return nil
	}
}

// TestCapturedAttempts checks that a capture has every attempt and marks the one whose
// response the client got.
func TestCapturedAttempts(t *testing.T) {
	p := newPair(t, func(p *pair) { p.route.Hedge = route.Hedge{Quantile: 0.9, Share: 1} })
	got := attachCapture(t, p.relay)
	p.up.Answer(upstreamtest.JSON(http.StatusInternalServerError, `{"error":{"message":"broken"}}`))
	p.two.Answer(good("second"))
	_, body, _ := p.post(t, chatPath, pairStream)
	x := next(t, got)
	if len(x.Attempts) != 2 || x.Answered != 1 || x.Attempts[0].Status != http.StatusInternalServerError || !strings.Contains(string(x.Attempts[0].ResponseBody), "broken") {
		t.Errorf("taken %d of %+v", x.Answered, x.Attempts)
	}
	if string(x.ResponseBody) != body || string(x.Attempts[1].ResponseBody) != body || string(x.RequestBody) != pairStream || !strings.Contains(string(x.Attempts[1].RequestBody), `"model":"x"`) {
		t.Errorf("request %s, response %q of %q", x.RequestBody, x.ResponseBody, x.Attempts[1].ResponseBody)
	}

	p.two.Answer(upstreamtest.JSON(http.StatusInternalServerError, `{"error":{"message":"broken"}}`))
	if _, _, err := p.post(t, chatPath, pairStream); err != nil {
		t.Fatal(err)
	}
	if x = next(t, got); x.Error != string(llm.Upstream) {
		t.Errorf("the error is %q", x.Error)
	}
	p.two.Answer(good("second"))

	p.up.Answer(good("quick"))
	for range 25 { // enough samples for the latency quantile
		if _, _, err := p.post(t, chatPath, pairStream); err != nil {
			t.Fatal(err)
		}
		next(t, got)
	}
	asked, gone := make(chan bool), make(chan bool, 1)
	last := strings.Replace(pairStream, `"messages"`, `"user":"last","messages"`, 1)
	p.up.Answer(func(c *upstreamtest.Conn) {
		if !bytes.Contains(c.Request.Body, []byte("last")) {
			return // a hedged attempt of an earlier request, which has lost and arrives late
		}
		close(asked)
		c.BeginStream()
		gone <- c.Gone(never)
	})
	p.two.Answer(func(c *upstreamtest.Conn) {
		<-asked // otherwise the first request may be cancelled before it is sent
		good("second")(c)
	})
	_, body, _ = p.post(t, chatPath, last)
	<-gone
	x = next(t, got)
	if len(x.Attempts) != 2 || x.Attempts[x.Answered].Target != "two/x" || string(x.ResponseBody) != body || !strings.Contains(body, "second") {
		t.Errorf("taken %d of %+v, seen %q", x.Answered, x.Attempts, x.ResponseBody)
	}
}
