package relay

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/capture"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// onlooker is a Watcher that counts.
type onlooker struct {
	active, asked int
	on            bool
}

func (o *onlooker) Active() bool { o.active++; return o.on }

func (o *onlooker) Follow(capture.Subject) *capture.Tape { o.asked++; return nil }

// While nobody looks on, a request asks whether anybody does, once, and allocates
// nothing for it.
func TestWatchedByNobody(t *testing.T) {
	for path, body := range map[string]string{chatPath: plainAsk, "/v1/messages": strings.Replace(plainAsk, "{", `{"max_tokens":9,`, 1)} {
		g := newGateway(t)
		g.up.Answer(upstreamtest.JSON(http.StatusOK, plainAnswer))
		o := &onlooker{}
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
			t.Error("somebody looks on")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What an exchange is chosen by.
func TestSubject(t *testing.T) {
	g := newGateway(t)
	req := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(plainAsk))
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Request-Id": "r1", "X-Client-Request-Id": "r2", "Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Authorization": "Bearer sk-some-key"} {
		req.Header.Set(name, value)
	}
	req.Host, req.RemoteAddr = "localhost", "127.0.0.1:1"
	x := g.relay.open(g.state, httptest.NewRecorder(), req)
	for _, step := range []func(*exchange) *llm.Error{g.relay.identify, g.relay.accept, g.relay.admit, g.relay.plan} {
		if err := step(x); err != nil {
			t.Fatal(err)
		}
	}
	defer x.permit.Release()
	var got capture.Subject
	g.relay.Watch(subjects(func(s capture.Subject) { got = s }))
	g.relay.follow(x)
	if got.Model != "real-chat" || got.Key != "" || strings.Join(got.Requests, " ") != "r1 r2 4bf92f3577b34da6a3ce929d0e0e4736" || len(got.Digest) != 64 {
		t.Errorf("got %+v", got)
	}
	x.seen.End()
}

// subjects is a Watcher that is told what is chosen by.
type subjects func(capture.Subject)

func (subjects) Active() bool { return true }

func (f subjects) Follow(s capture.Subject) *capture.Tape { f(s); return nil }

// lookOn attaches to a relay and returns what it is handed.
func lookOn(t *testing.T, r *Relay) <-chan *capture.Exchange {
	t.Helper()
	dir, err := os.MkdirTemp("", "ir") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	hub := &capture.Hub{}
	r.Watch(hub)
	server, err := capture.Serve(capture.Options{Hub: hub, Address: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got, attached, done := make(chan *capture.Exchange, 100), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- capture.Attach(ctx, server.Name(), capture.Filter{All: true, Count: 1000, Bytes: 1 << 20}, capture.Watch{
			Attached: func() { close(attached) },
			Exchange: func(x *capture.Exchange) error { got <- x; return nil },
			Missed:   func(large, busy int64) { t.Errorf("missed %d and %d", large, busy) },
		})
	}()
	<-attached
	t.Cleanup(func() {
		cancel()
		<-done
		server.Close()
		_ = os.RemoveAll(dir)
	})
	return got
}

func next(t *testing.T, got <-chan *capture.Exchange) *capture.Exchange {
	t.Helper()
	select {
	case x := <-got:
		return x
	case <-time.After(never):
		t.Fatal("nothing was captured")
		return nil
	}
}

// Of several attempts all are there, and it is known whose answer the client got.
func TestCapturedAttempts(t *testing.T) {
	p := newPair(t, func(p *pair) { p.route.Hedge = route.Hedge{Quantile: 0.9, Share: 1} })
	got := lookOn(t, p.relay)
	p.up.Answer(upstreamtest.JSON(http.StatusInternalServerError, `{"error":{"message":"broken"}}`))
	p.two.Answer(good("second"))
	_, body, _ := p.post(t, chatPath, pairStream)
	x := next(t, got)
	if len(x.Tries) != 2 || x.Taken != 1 || x.Tries[0].Status != http.StatusInternalServerError || !strings.Contains(string(x.Tries[0].Answer), "broken") {
		t.Errorf("taken %d of %+v", x.Taken, x.Tries)
	}
	if string(x.Seen) != body || string(x.Tries[1].Answer) != body || string(x.Ask) != pairStream || !strings.Contains(string(x.Tries[1].Body), `"model":"x"`) {
		t.Errorf("asked %s, seen %q of %q", x.Ask, x.Seen, x.Tries[1].Answer)
	}

	p.up.Answer(good("quick"))
	for range 25 { // so many that their usual time is known
		if _, _, err := p.post(t, chatPath, pairStream); err != nil {
			t.Fatal(err)
		}
		next(t, got)
	}
	gone := make(chan bool, 1)
	p.up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		gone <- c.Gone(never)
	})
	_, body, _ = p.post(t, chatPath, pairStream)
	<-gone
	x = next(t, got)
	if len(x.Tries) != 2 || x.Tries[x.Taken].Target != "two/x" || string(x.Seen) != body || !strings.Contains(body, "second") {
		t.Errorf("taken %d of %+v, seen %q", x.Taken, x.Tries, x.Seen)
	}
}
