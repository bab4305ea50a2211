package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/spf13/cobra"
)

// newUpstreamCommand plays the model's server.
func newUpstreamCommand() *cobra.Command {
	var at endpoint
	cmd := &cobra.Command{Use: "upstream", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		mux := http.NewServeMux()
		mux.Handle("POST /v1/chat/completions", newPlayer(testrig.Chat, ""))
		mux.Handle("POST /v1/messages", newPlayer(testrig.Messages, "-a"))
		for _, d := range []testrig.Dialect{testrig.Responses, testrig.Gemini, testrig.Converse} {
			mux.Handle("POST "+strings.TrimSuffix(d.Path("", false), map[testrig.Dialect]string{testrig.Gemini: ":generateContent", testrig.Converse: "/converse"}[d]), newPlayer(d, ""))
		}
		mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
		return serve(cmd.Context(), at, mux)
	}}
	at.flags(cmd)
	return cmd
}

// endpoint is where a process of the run serves.
type endpoint struct {
	listen string
	http   string // the version
	dir    string // has the certificate
}

func (e *endpoint) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.listen, "listen", "", "address")
	cmd.Flags().StringVar(&e.http, "http", h1, "version of HTTP")
	cmd.Flags().StringVar(&e.dir, "certificate", "", "folder")
}

// args are the flags of a process.
func (e *endpoint) args() []string {
	return []string{"--listen", e.listen, "--http", e.http, "--certificate", e.dir}
}

// serve serves until the context ends.
func serve(ctx context.Context, at endpoint, h http.Handler) error {
	s := &http.Server{Addr: at.listen, Handler: h, Protocols: protocols(at.http), ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	listen := s.ListenAndServe
	if at.http != h1 {
		listen = func() error {
			return s.ListenAndServeTLS(filepath.Join(at.dir, certificateFile), filepath.Join(at.dir, keyFile))
		}
	}
	if err := listen(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// player answers in one dialect. Its responses are made once, because it shares the machine
// with the programs that are measured.
type player struct {
	wire
	dialect testrig.Dialect
	suffix  string // of its models
	mu      sync.Mutex
	bodies  map[int]string
}

func newPlayer(d testrig.Dialect, suffix string) *player {
	return &player{wire: newWire(d, 1000), dialect: d, suffix: suffix, bodies: map[int]string{}}
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	model := cmp.Or(modelOf(body), modelIn(r.URL.Path))
	s, err := parseScript(model)
	if err == nil && strings.HasSuffix(model, "-a") != (p.suffix == "-a") {
		err = fmt.Errorf("model %q is not served in this dialect", model) // a proxy that does not translate
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.kind == "whole" {
		answer := p.body(s.n)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer))) // as engines do
		_, _ = io.WriteString(w, answer)
		return
	}
	w.Header().Set("Content-Type", p.dialect.StreamMedia())
	p.stream(w, r, s, bytes.Contains(body, []byte(`"include_usage":true`)))
}

func (p *player) body(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bodies[n] == "" {
		p.bodies[n] = testrig.Reply{Dialect: p.dialect, Words: []string{text(n)}}.Body()
	}
	return p.bodies[n]
}

// stream sends every event by itself, as engines do.
func (p *player) stream(w http.ResponseWriter, r *http.Request, s script, usage bool) {
	out := http.NewResponseController(w)
	_, _ = io.WriteString(w, p.head)
	if out.Flush() != nil {
		return
	}
	if s.kind == "paced" {
		p.pace(w, r, time.Duration(s.n)*time.Millisecond)
		return
	}
	if s.kind == "timed" {
		if p.timed(w, r, s) {
			_, _ = io.WriteString(w, p.tail[usage])
		}
		return
	}
	for i := range s.n {
		if _, err := io.WriteString(w, p.words[i%len(p.words)]); err != nil || out.Flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, p.tail[usage])
}

func (p *player) pace(w http.ResponseWriter, r *http.Request, every time.Duration) {
	out := http.NewResponseController(w)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		if _, err := io.WriteString(w, p.words[i%len(p.words)]); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// timed sends events with the time of their sending, and reports whether the client has got all. Streams that begin
// together do not send together.
func (p *player) timed(w http.ResponseWriter, r *http.Request, s script) bool {
	out := http.NewResponseController(w)
	before, after, _ := strings.Cut(p.words[0], word+"0 ")
	next := time.NewTimer(rand.N(s.every)) //nolint:gosec // spreads the load
	defer next.Stop()
	for range s.n {
		select {
		case <-next.C:
		case <-r.Context().Done():
			return false
		}
		next.Reset(s.every)
		if _, err := fmt.Fprintf(w, "%s%s%d %s", before, stamp, time.Now().UnixNano(), after); err != nil || out.Flush() != nil {
			return false
		}
	}
	return true
}

// stamp is in front of the time of an event.
const stamp = word + "-t"

// stampOf returns the time in an event.
func stampOf(line []byte) (time.Time, bool) {
	_, rest, ok := bytes.Cut(line, []byte(stamp))
	if !ok {
		return time.Time{}, false
	}
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, n), err == nil
}
