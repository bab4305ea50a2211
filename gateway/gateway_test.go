package gateway_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/gateway"
)

var whole = flag.Bool("whole", false, "play all checks of the corpus")

const yaml = "log: { level: error }\nshutdown: { notice: 1ms, drain: 5s }\n" + conform.SelfConfig

func start(t *testing.T, upstream string) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(fmt.Appendf(nil, yaml, upstream), gateway.Options{Env: func(string) (string, bool) { return "", false }, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// through is a server whose requests go to the Transport, for the runner of the corpus.
func through(g *gateway.Gateway) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.RequestURI, out.URL.Scheme, out.URL.Host = "", "https", "api.vendor.example"
		resp, err := g.Transport().RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		buf := make([]byte, 16<<10)
		for {
			n, err := resp.Body.Read(buf)
			_, werr := w.Write(buf[:n])
			if flush, ok := w.(http.Flusher); ok {
				flush.Flush()
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || werr != nil {
				panic(http.ErrAbortHandler)
			}
		}
		for name, values := range resp.Trailer {
			w.Header()[http.TrailerPrefix+name] = values
		}
	})
}

// TestCorpus plays the conformance corpus against the Handler and the Transport: an eighth of its checks each, or with
// -whole all.
func TestCorpus(t *testing.T) {
	cases, err := conform.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	for name, handler := range map[string]func(*gateway.Gateway) http.Handler{
		"handler": func(g *gateway.Gateway) http.Handler { return g }, "transport": through,
	} {
		t.Run(name, func(t *testing.T) {
			l, err := conform.Listen(t.Context(), "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			u := conform.NewUpstream(l)
			server := httptest.NewServer(handler(start(t, u.URL())))
			r := &conform.Runner{Target: conform.SelfTarget(server.URL), Upstream: u}
			defer func() {
				r.Close()
				server.Close()
				if err := u.Close(); err != nil {
					t.Error(err)
				}
			}()
			n, ran := 0, 0
			for _, c := range cases {
				for _, cell := range r.Cells(c) {
					if n++; n%8 != 0 && !*whole {
						continue
					}
					ran++
					if res := r.Run(t.Context(), c, cell); !res.Passed() {
						t.Errorf("%s %s: %.600q", c.Name, cell, res.Problems)
					}
				}
			}
			t.Logf("%d checks", ran)
			if ran < 500 {
				t.Errorf("only %d checks were run", ran)
			}
		})
	}
}

func TestMistakesOfTheYAML(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, text := range []string{"modles: {}", "tls: { cert: a.pem, key: b.pem }", "h2c: true"} {
		if g, err := gateway.New([]byte(text), gateway.Options{Env: none, Log: io.Discard}); err == nil {
			t.Errorf("%s: accepted", text)
			_ = g.Close(t.Context())
		}
	}
}

// TestClose ends a gateway: open requests finish, later ones fail, and a context bounds the wait.
func TestClose(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}`)
	}))
	defer up.Close()
	g, err := gateway.New(fmt.Appendf(nil, yaml, up.URL), gateway.Options{Env: func(string) (string, bool) { return "", false }, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	post := func() (int, error) {
		resp, err := g.Client().Post("https://api.openai.com/v1/chat/completions", "application/json", strings.NewReader(`{"model":"on-chat","messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return resp.StatusCode, err
	}
	done := make(chan error, 1)
	go func() {
		status, err := post()
		if status != http.StatusOK {
			err = fmt.Errorf("status %d: %w", status, err)
		}
		done <- err
	}()
	<-arrived
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := g.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error("an open request did not finish:", err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if status, err := post(); err == nil {
		t.Error("a closed gateway answers", status)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}")))
	if w.Code != http.StatusServiceUnavailable {
		t.Error(w.Code)
	}
}
