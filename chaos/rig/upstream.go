package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Upstream is a chat server that answers at once, and streams at a pace.
type Upstream struct {
	URL string // as a base_url

	events int
	every  time.Duration
	server http.Server
}

// NewUpstream starts a server whose streams have so many events, one in every such
// time.
func NewUpstream(events int, every time.Duration) (*Upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing is looked up
	if err != nil {
		return nil, err
	}
	u := &Upstream{URL: "http://" + l.Addr().String() + "/v1", events: events, every: every}
	u.server = http.Server{Handler: http.HandlerFunc(u.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = u.server.Serve(l) }() // Close ends it
	return u, nil
}

// Close cuts what is open.
func (u *Upstream) Close() error { return u.server.Close() }

func (u *Upstream) answer(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Model  string
		Stream bool
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if ask.Stream {
		u.stream(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, ask.Model, ask.Model)
}

func (u *Upstream) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	tick := time.NewTicker(u.every)
	defer tick.Stop()
	for range u.events {
		_, err := fmt.Fprint(w, chunk(`{"content":"`+word+`"}`, "null"))
		if err = errors.Join(err, rc.Flush()); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprint(w, chunk("{}", `"stop"`)+"data: [DONE]\n\n")
}

// word is the content of each event.
const word = "isogloss"

func chunk(delta, finish string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n"
}
