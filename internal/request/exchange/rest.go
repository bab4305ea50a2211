package exchange

import (
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Limits of what is read of a stream after its client has disconnected.
const (
	restTime  = 2 * time.Second
	restBytes = 64 << 10
)

// rest is the part of a stream after its finish reason. Many clients disconnect there, before the
// usage by which the request is charged.
type rest struct {
	began  bool // the finish reason was read, and the request is charged by usage
	waits  bool // for the usage
	gone   bool // the client cannot be written to
	unsent int  // bytes that were read after the client had disconnected
}

// ReadRest notes a read of a stream that has finished, before it is sent: its size, and the usage that
// was reported so far. Until the output is reported the round trip outlives the client, within limits.
// ReadRest reports whether no more is to be read.
func (d *Delivery) ReadRest(size int, u *llm.Usage) (over bool) {
	r := &d.rest
	if !d.Account.NeedsUsage() {
		return false
	}
	r.began = true
	if waits := u == nil || u.TotalOutput() == 0; waits != r.waits {
		if r.waits = waits; waits {
			d.Trip.Outlive(restTime)
		} else {
			d.Trip.Rejoin()
		}
	}
	if !d.LeftFinished() {
		return false
	}
	r.unsent += size
	return !r.waits || r.unsent > restBytes
}

// LeftFinished reports whether the client has disconnected after the finish reason of a response that is
// charged by usage. It has the whole response.
func (d *Delivery) LeftFinished() bool {
	return d.rest.began && (d.rest.gone || d.Call.Client.Context().Err() != nil)
}

// leave notes that the client cannot be written to. It returns the error if the response has not
// finished.
func (d *Delivery) leave(err error) error {
	if !d.rest.began {
		return err
	}
	d.rest.gone = true
	d.Trip.Shorten(restTime)
	return nil
}
