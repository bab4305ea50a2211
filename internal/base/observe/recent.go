package observe

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// maxRecent is how many bytes of the log are kept.
const maxRecent = 256 << 10

// recent writes the log, and keeps its last lines for a support bundle.
type recent struct {
	out io.Writer

	mu   sync.Mutex
	ring []byte // maxRecent bytes
	next int    // where the next byte goes
	full bool
}

func newRecent(out io.Writer) *recent { return &recent{out: out, ring: make([]byte, maxRecent)} }

// Write writes a line.
func (r *recent) Write(line []byte) (int, error) {
	r.keep(line)
	return r.out.Write(line)
}

func (r *recent) keep(line []byte) {
	line = line[max(0, len(line)-maxRecent):]
	r.mu.Lock()
	defer r.mu.Unlock()
	n := copy(r.ring[r.next:], line)
	r.next += n
	if r.next == maxRecent {
		r.next, r.full = copy(r.ring, line[n:]), true
	}
}

// lines returns the last complete lines.
func (r *recent) lines() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.full {
		return bytes.Clone(r.ring[:r.next])
	}
	all := append(bytes.Clone(r.ring[r.next:]), r.ring[:r.next]...)
	_, rest, _ := bytes.Cut(all, []byte("\n")) // the first line has lost its beginning
	return rest
}

// Recent serves the last lines of the log.
func (o *Observer) Recent() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(o.recent.lines()) // the client may have ended
	})
}
