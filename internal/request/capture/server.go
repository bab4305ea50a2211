package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

const (
	writeTimeout = 10 * time.Second // for the command to read a message
	maxFilter    = 64 << 10         // bytes
)

// Path is the path of a capture at the gateway's socket. The request is a Filter, the response a message on
// each line.
const Path = "/capture"

// message is one line from the gateway to an attached command.
type message struct {
	Attached  bool      `json:"attached,omitempty"` // the first message
	Exchange  *Exchange `json:"exchange,omitempty"`
	Oversized int64     `json:"large,omitempty"`   // exchanges that exceeded the limit, so far
	Dropped   int64     `json:"missed,omitempty"`  // exchanges that matched while too many were open, so far
	Stopping  bool      `json:"leaving,omitempty"` // the process stops, and another may take over
}

// Options are the options of a Handler.
type Options struct {
	Hub      *Hub
	Logger   *slog.Logger
	Attached func(ctx context.Context, uid string, f Filter) // called beside each capture; may be nil
}

// NewHandler returns a handler that lets commands attach. It is for requests of the local socket.
func NewHandler(o Options) http.Handler { return &handler{o} }

type handler struct{ Options }

// ServeHTTP serves one command.
func (s *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var f Filter
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFilter)).Decode(&f); err != nil {
		http.Error(w, "expected a filter as JSON", http.StatusBadRequest)
		return
	}
	uid, _ := local.UID(r.Context())
	v, ok := s.Hub.attach(uid, f)
	switch {
	case !ok && s.Hub.isClosed():
		http.Error(w, "the gateway stops", http.StatusServiceUnavailable)
		return
	case !ok:
		http.Error(w, fmt.Sprintf("%d commands are attached already; end one of them", maxAttached), http.StatusConflict)
		return
	}
	defer s.Hub.detach(v)
	s.Logger.Warn("capture attached: matching exchanges are sent to a command", "uid", uid, "model", f.Model, "key", f.Key, "request", f.Request, "all", f.All, "count", f.Count)
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		crash.Do(s.Logger, func() {
			if s.Attached != nil {
				s.Attached(context.WithoutCancel(r.Context()), uid, f)
			}
		})
	}()
	l := &lines{json.NewEncoder(w), http.NewResponseController(w)}
	_ = l.control.SetReadDeadline(time.Time{}) // a capture may take longer than a request; a failure ends it early
	sent := deliver(r.Context(), l, v)
	s.Logger.Warn("capture detached", "uid", uid, "sent", sent)
	<-noted
}

// deliver sends exchanges until the command disconnects or has all of them. It returns
// how many it sent.
func deliver(ctx context.Context, l *lines, v *viewer) (sent int) {
	if l.write(message{Attached: true}) != nil {
		return 0
	}
	for sent < v.filter.Count {
		m := message{}
		select {
		case m.Exchange = <-v.out:
			m.Exchange.redact()
			v.open.Add(-1)
			sent++
		case <-v.changed:
		case <-ctx.Done():
			return sent
		case <-v.stopping:
			_ = l.write(message{Stopping: true})
			return sent
		}
		m.Oversized, m.Dropped = v.oversized.Load(), v.dropped.Load()
		if l.write(m) != nil {
			return sent
		}
	}
	return sent
}

// lines writes messages, one per line.
type lines struct {
	encoder *json.Encoder
	control *http.ResponseController
}

func (l *lines) write(m message) error {
	_ = l.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a command that hangs is disconnected
	if err := l.encoder.Encode(m); err != nil {
		return err
	}
	return l.control.Flush()
}
