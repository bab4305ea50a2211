package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/spf13/cobra"
)

// newUpstreamCommand plays the model's server.
func newUpstreamCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{Use: "upstream", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		mux := http.NewServeMux()
		mux.Handle("POST /v1/chat/completions", newPlayer(testrig.Chat, ""))
		mux.Handle("POST /v1/messages", newPlayer(testrig.Messages, "-a"))
		mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
		return serve(cmd.Context(), listen, mux)
	}}
	cmd.Flags().StringVar(&listen, "listen", "", "address")
	return cmd
}

// serve serves until the context ends.
func serve(ctx context.Context, addr string, h http.Handler) error {
	s := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// player answers in one dialect. What it says is made once, so that it costs little
// of the machine that the others are measured on.
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
	model := modelOf(body)
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
	w.Header().Set("Content-Type", "text/event-stream")
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
