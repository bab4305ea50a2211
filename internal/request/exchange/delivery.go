package exchange

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Delivery sends one response to the client. It writes the bytes, counts them for
// billing, and charges the request before its last byte.
type Delivery struct {
	Call    *Call
	Writer  *ClientWriter
	Account *billing.Account  // nil: not billed
	Record  *observe.Exchange // for logs, metrics and traces; it decides nothing
	Result  Result
	Path    RequestPath

	// Target and Trip belong to the attempt whose response is delivered.
	Target *Target
	Trip   *upstream.RoundTrip

	lane headers // sets the headers of the current stream
	rest rest
}

// Result is what has become of a request so far. The request path decides by it, and the
// record gets it when the request ends.
type Result struct {
	Status      int        // of the response; 0: that of Err, or nothing was sent
	Err         *llm.Error // nil if the request succeeded
	Target      string     // provider/model of the attempt
	Attempts    int
	Continued   int       // how often a stream that broke off was continued
	Recalled    string    // "hit" if the response comes from the cache, "replay" if from an Idempotency-Key
	FirstToken  time.Time // when the first event with content was sent
	Events      int64     // server-sent events sent to the client
	BytesIn     int64     // of the request's body
	Cost        *int64    // billionths of a dollar; nil if unknown or not counted
	IgnoredTags int       // tags of the request that the ledger does not take
}

// RequestPath has the methods of the request path that lanes call during delivery.
type RequestPath interface {
	// SetHeaders sets the response headers of both lanes.
	SetHeaders(h http.Header)

	// Charge closes the request's account. Only the first call has an effect.
	Charge()

	// Release drops values that only further attempts need.
	Release()

	// MayResume reports whether another target may continue a stream that ended with
	// an error.
	MayResume(err *llm.Error) bool

	// Resume sends the request for the rest of a truncated stream, encoded by the lane,
	// to another target. It sets the delivery's target and round trip.
	Resume(cause *llm.Error, rest Lane) (Prepared, bool)
}

// headers sets the headers of a stream.
type headers interface{ SetStreamHeaders(h http.Header) }

// NoteToken records an event with content.
func (d *Delivery) NoteToken(now time.Time) {
	if d.Result.FirstToken.IsZero() {
		d.Result.FirstToken = now
	}
	d.Record.Token(now)
}

// SendBody sends a complete response. header sets the lane's own headers.
func (d *Delivery) SendBody(status int, body []byte, header func(http.Header)) {
	d.Result.Status = status
	if d.Result.Err == nil && d.Call.Generates() {
		d.Account.CountBody(len(body))
	}
	d.Path.Charge()
	d.Writer.Start(status, func(h http.Header) {
		d.Path.SetHeaders(h)
		header(h)
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	})
	if err := d.Writer.Write(body, time.Now()); err != nil {
		d.Result.Err = upstream.ClientGone(err)
	}
}

// SendEvents sends a part of a stream.
func (d *Delivery) SendEvents(p []byte, now time.Time, lane headers) error {
	if len(p) == 0 {
		return nil
	}
	d.Result.Status = http.StatusOK
	d.Path.Release()
	if d.rest.gone {
		d.Writer.WriteCopies(p)
		return nil
	}
	d.Account.BeforeWrite()
	d.lane = lane
	if err := d.Writer.WriteEvents(p, now, d); err != nil {
		return d.leave(err)
	}
	d.Account.AfterWrite()
	return nil
}

// SetStreamHeaders sets all headers of a stream.
func (d *Delivery) SetStreamHeaders(h http.Header) {
	d.Path.SetHeaders(h)
	SetNoBuffering(h)
	d.lane.SetStreamHeaders(h)
}

// SetNoBuffering sets the headers that keep proxies in front of the gateway from
// buffering a stream.
func SetNoBuffering(h http.Header) {
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
}

// ChargeStream closes the request's account before the last bytes of a stream are
// sent.
func (d *Delivery) ChargeStream() {
	d.Account.AfterWrite()
	d.Writer.StopKeepAlive() // nothing follows the last event
	d.Result.Status = http.StatusOK
	d.Path.Charge()
}

// Extend reserves more for a response that has grown beyond its reservation. It fails if
// the budget is exhausted.
func (d *Delivery) Extend() *llm.Error {
	if d.LeftFinished() {
		return nil // nothing more is sent
	}
	return d.Account.Extend(d.Call.Client.Context())
}

// Comment sends a comment line if the client's dialect allows comments.
func (d *Delivery) Comment(text string, lane headers) {
	if !d.Call.Dialect.NoComments {
		_ = d.SendEvents(sse.AppendComment(nil, text), time.Now(), lane) // the next write reports a disconnected client
	}
}

// Facts returns what the record says of the call and its result.
func (d *Delivery) Facts() observe.Facts {
	f := observe.Facts{Operation: d.Call.Span, Target: d.Result.Target, Status: d.Result.Status, Err: d.Result.Err, Attempts: d.Result.Attempts, Continued: d.Result.Continued,
		Recalled: d.Result.Recalled, Cost: d.Result.Cost, IgnoredTags: d.Result.IgnoredTags, BytesIn: d.Result.BytesIn, BytesOut: d.Writer.Written(), Events: d.Result.Events}
	f.Client, _, _ = net.SplitHostPort(d.Call.Client.RemoteAddr)
	if d.Call.Body != nil {
		f.Requested, f.Stream = d.Call.Body.Model, d.Call.Body.Stream
	}
	return f
}
