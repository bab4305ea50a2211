package cache

import (
	"net/http"
	"slices"
	"time"
)

// Response is a complete response as the client received it.
type Response struct {
	Status int
	Header http.Header // only storedHeaders are stored
	Body   []byte      // must not be changed: values in memory are shared
	Stream bool        // the body is that of a stream
	At     time.Time   // when it was complete
}

// storedHeaders are the headers that are stored with a response. Others belong to the
// exchange that produced it: ids, rate limits, times.
var storedHeaders = []string{"Content-Type", "Isogloss-Fidelity", "Isogloss-Target"}

// Age returns the age of the response in seconds, for the Age header.
func (a *Response) Age(now time.Time) int {
	return max(0, int(now.Sub(a.At)/time.Second))
}

// Recorder copies a response while it is sent. It drops its copy when the response
// exceeds the limit, so that a stream takes no more memory than that.
type Recorder struct {
	body []byte
	max  int
	over bool
}

// NewRecorder returns a Recorder for responses of up to limit bytes; 0 means DefaultMax.
func NewRecorder(limit int) *Recorder {
	if limit == 0 {
		limit = DefaultMax
	}
	return &Recorder{max: limit}
}

// Write copies p. It never fails, because a response that is not stored is still sent.
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

// Body returns the recorded body, or false if it exceeded the limit.
func (r *Recorder) Body() ([]byte, bool) { return slices.Clip(r.body), !r.over }
