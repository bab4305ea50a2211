package cache

import (
	"net/http"
	"slices"
	"time"
)

// Answer is what a client was sent, whole.
type Answer struct {
	Status int
	Header http.Header // what of it is kept: Content-Type, Isogloss-Target, Isogloss-Fidelity, Openai-Model
	Body   []byte      // not to be changed: a value in memory is shared
	Stream bool        // the body is a stream's bytes
	At     time.Time   // when it was complete
}

// kept are the headers that belong to the answer. Everything else belongs to the
// exchange in which it was made: ids, rate limits, times.
var kept = []string{"Content-Type", "Isogloss-Fidelity", "Isogloss-Target", "Openai-Model"}

// Age is how old an answer is, in whole seconds, for the Age header.
func (a *Answer) Age(now time.Time) int {
	return max(0, int(now.Sub(a.At)/time.Second))
}

// Recorder holds a copy of an answer's bytes while they pass. An answer that is
// larger than the limit is let go at once, so a stream costs no more than that.
type Recorder struct {
	body []byte
	max  int
	over bool
}

// NewRecorder returns one for answers of up to limit bytes; zero is DefaultMax.
func NewRecorder(limit int) *Recorder {
	if limit == 0 {
		limit = DefaultMax
	}
	return &Recorder{max: limit}
}

// Write copies. It never fails: that an answer is not kept is no reason to stop it.
func (r *Recorder) Write(p []byte) (int, error) {
	switch {
	case r.over:
	case len(r.body)+len(p) > r.max:
		r.over, r.body = true, nil
	default:
		r.body = append(r.body, p...)
	}
	return len(p), nil
}

// Body is everything that was written, or nil and false where it was too much.
func (r *Recorder) Body() ([]byte, bool) { return slices.Clip(r.body), !r.over }
