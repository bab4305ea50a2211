package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

// ErrStopped says that the gateway has stopped and no other process took over.
var ErrStopped = errors.New("the gateway has stopped")

// errStopping says that the process stops, and that another may take over.
var errStopping = errors.New("the gateway stops")

// takeoverTimeout is how long a process that takes over may need to start, and tryInterval how often it is
// looked for.
const (
	takeoverTimeout = 5 * time.Second
	tryInterval     = 20 * time.Millisecond
)

// Handler has the functions that Attach calls.
type Handler struct {
	Attached func() // called again where another process takes over
	Exchange func(*Exchange) error
	Missed   func(oversized, dropped int64) // exchanges that matched and were not delivered, so far
}

// Attach receives exchanges from the gateway at a socket until there are f.Count of them
// or the context ends. Where another process takes over the socket, it attaches to that.
func Attach(ctx context.Context, socket string, f Filter, h Handler) error {
	transport := local.Transport(socket)
	var deadline time.Time // for another process to take over; zero before the first try
	for left := f.Count; ; {
		f.Count = left
		n, attached, err := attachOnce(ctx, transport, f, h)
		if left -= n; ctx.Err() != nil || left <= 0 {
			return nil //nolint:nilerr // all exchanges were received, or the context has ended
		}
		if !errors.Is(err, errStopping) && (!errors.Is(err, local.ErrNotRunning) || deadline.IsZero()) {
			return err
		}
		if attached || deadline.IsZero() {
			deadline = time.Now().Add(takeoverTimeout)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tryInterval):
		}
		if time.Now().After(deadline) {
			return ErrStopped
		}
	}
}

// attachOnce receives exchanges from one process. It returns how many, and whether the gateway has let the
// command attach.
func attachOnce(ctx context.Context, transport http.RoundTripper, f Filter, h Handler) (n int, attached bool, err error) {
	filter, err := json.Marshal(f)
	if err != nil {
		return 0, false, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+Path, bytes.NewReader(filter))
	if err != nil {
		return 0, false, err
	}
	resp, err := transport.RoundTrip(r)
	switch {
	case hasEnded(err):
		return 0, false, errStopping
	case err != nil:
		return 0, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		n, err = receive(resp.Body, f, h)
		return n, true, err
	case http.StatusServiceUnavailable:
		return 0, false, errStopping
	}
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // the status says enough otherwise
	return 0, false, fmt.Errorf("the gateway refuses the capture: %d %s", resp.StatusCode, strings.TrimSpace(string(reason)))
}

// maxSides and maxRest bound a message: an exchange has sides of at most Filter.Bytes, which become longer in JSON.
const maxSides, maxRest = 64, 16 << 20

// receive reads the exchanges of a filter from a response.
func receive(body io.Reader, f Filter, h Handler) (n int, err error) {
	limited := &io.LimitedReader{R: body}
	in := json.NewDecoder(limited)
	var last message // with the counts that were reported last
	for n < f.Count {
		var m message
		limited.N = maxRest + maxSides*int64(min(f.Bytes, maxBytes))
		switch err := in.Decode(&m); {
		case limited.N <= 0:
			return n, errors.New("the gateway sends more than an exchange has; it is not read")
		case hasEnded(err), m.Stopping:
			return n, errStopping
		case err != nil:
			return n, err
		case m.Attached:
			h.Attached()
		}
		if m.Oversized+m.Dropped > last.Oversized+last.Dropped {
			last = m
			h.Missed(m.Oversized, m.Dropped)
		}
		if m.Exchange != nil {
			n++
			if err := h.Exchange(m.Exchange); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// hasEnded reports whether a connection was closed by the process at its other end.
func hasEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
