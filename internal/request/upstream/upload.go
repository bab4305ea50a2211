package upstream

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
)

// Upload is a request body that is relayed while the client sends it. Each part of it
// restarts the first-byte timeout.
type Upload struct {
	io.ReadCloser
	trip     *RoundTrip
	bytes    atomic.Int64
	complete atomic.Bool // the end was read
	stalled  atomic.Bool // a read timed out
}

// uploadError is the cause with which a broken upload cancels its round trip. The
// transport's own error lacks it.
type uploadError struct{ err error }

func (e *uploadError) Error() string { return "the request body broke off: " + e.err.Error() }

// Upload returns a request body that reads from the client.
func (t *RoundTrip) Upload(body io.ReadCloser) *Upload { return &Upload{ReadCloser: body, trip: t} }

func (u *Upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.bytes.Add(int64(n))
	if n > 0 {
		u.trip.extendFirstByte()
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		u.complete.Store(true)
	default:
		u.stalled.Store(errors.Is(err, os.ErrDeadlineExceeded))
		u.trip.Cancel(&uploadError{err})
	}
	return n, err
}

// Bytes returns the number of bytes read from the client.
func (u *Upload) Bytes() int64 { return u.bytes.Load() }

// Complete reports whether the client's whole body was read.
func (u *Upload) Complete() bool { return u.complete.Load() }

// Err returns why the client's body is incomplete, or nil.
func (u *Upload) Err() error {
	var broken *uploadError
	switch cause := context.Cause(u.trip.ctx); {
	case errors.As(cause, &broken):
		return broken.err
	case errors.Is(cause, errIdle) && u.stalled.Load():
		return os.ErrDeadlineExceeded
	}
	return nil
}
