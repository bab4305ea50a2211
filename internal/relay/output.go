package relay

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/cache"
	"github.com/isogloss-gateway/isogloss/internal/capture"
	"github.com/isogloss-gateway/isogloss/sse"
)

// A client that does not take a piece in this time has gone away. A write is done
// in pieces, so that a slow reader of a large event is not mistaken for one. Smaller
// pieces would let slower ones pass, and cost a system call each.
const (
	writePatience = 30 * time.Second
	writePiece    = 8 << 10
	rearmAfter    = time.Second // how stale the deadline may be
	lastRead      = 5 * time.Second
)

// output is the way to the client.
type output struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	committed bool // the status line is written: what follows can only be body
	said      bool // a part of an answer is written, not only the status line or a keep-alive
	written   int64
	armed     time.Time       // when the write deadline was last set
	pieces    bool            // several were written since the last flush
	tape      *cache.Recorder // of what is written, where it is to be given again
	copied    *capture.Tape   // of what is written, where somebody looks on

	mu    sync.Mutex // against the keep-alive; unused without it
	keep  *time.Timer
	every time.Duration
	over  bool
}

func newOutput(w http.ResponseWriter, header, id string) *output {
	w.Header()[header] = []string{id}
	return &output{w: w, rc: http.NewResponseController(w)}
}

func (o *output) header() http.Header { return o.w.Header() }

func (o *output) readDeadline(t time.Time) {
	_ = o.rc.SetReadDeadline(t) // a test's recorder has no deadlines
}

// hurry bounds how long the server waits for the rest of a request that nobody
// will read: it wants to have it before it sends a refusal.
func (o *output) hurry() { o.readDeadline(time.Now().Add(lastRead)) }

// commit writes the status line, once.
func (o *output) commit(status int) {
	if !o.committed {
		o.committed = true
		o.w.WriteHeader(status)
	}
}

// write sends bytes to the client and blocks while the client does not take
// them: that is how back-pressure reaches the upstream.
func (o *output) write(p []byte, now time.Time) error {
	for {
		o.arm(now)
		n, err := o.w.Write(p[:min(len(p), writePiece)]) //nolint:gosec // G705: an answer is passed on with its own content type, and is no page
		o.written += int64(n)
		if o.tape != nil {
			_, _ = o.tape.Write(p[:n]) // it never fails
		}
		if o.copied != nil {
			_, _ = o.copied.Write(p[:n]) // nor does it
		}
		if err != nil || n == len(p) {
			return err
		}
		p, now, o.pieces = p[n:], time.Now(), true
	}
}

// arm moves the write deadline on.
func (o *output) arm(now time.Time) {
	if now.Sub(o.armed) > rearmAfter {
		o.armed = now
		_ = o.rc.SetWriteDeadline(now.Add(writePatience))
	}
}

// flush sends what is buffered. What was written before it in pieces may have
// taken long.
func (o *output) flush() error {
	if o.pieces {
		o.pieces = false
		o.arm(time.Now())
	}
	return o.rc.Flush()
}

// lock keeps the keep-alive out while an answer is written.
func (o *output) lock() {
	if o.keep != nil {
		o.mu.Lock()
	}
}

func (o *output) unlock() {
	if o.keep != nil {
		if !o.over {
			o.keep.Reset(o.every)
		}
		o.mu.Unlock()
	}
}

// keepAlive sends a comment line whenever nothing else was sent for a while. The
// line stands alone: a blank line after it would end an event that some clients
// then take for one without data.
func (o *output) keepAlive(every time.Duration, early http.Header) {
	o.every = every
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep = time.AfterFunc(every, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.over {
			return
		}
		if !o.committed {
			maps.Copy(o.header(), early)
			o.commit(http.StatusOK)
		}
		if o.write(sse.AppendComment(nil, "keep-alive"), time.Now()) == nil && o.flush() == nil {
			o.keep.Reset(every)
		}
	})
}

// begun reports whether the status line is written, by us or the keep-alive.
func (o *output) begun() bool {
	o.lock()
	defer o.unlock()
	return o.committed
}

// close ends the keep-alive. What is still buffered is written by the server
// after us, and needs a deadline that has not passed.
func (o *output) close() {
	o.arm(time.Now())
	if o.keep == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	o.keep.Stop()
}
