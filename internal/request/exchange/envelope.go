package exchange

import (
	"cmp"
	"maps"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Envelope returns the envelope of the target's provider, or nil.
func (t *Target) Envelope() *codec.Envelope {
	if t.Provider.Envelope == "" || t.Dialect == nil {
		return nil
	}
	return t.Dialect.Envelope(t.Provider.Envelope)
}

// Wrap puts an encoded request into the envelope of the target's provider. It returns what
// the envelope cannot carry.
func (c *Call) Wrap(t *Target, r *Request) ([]llm.Loss, *llm.Error) {
	e := t.Envelope()
	if e == nil {
		return nil, nil
	}
	report, err := c.NewReport()
	if err != nil {
		return nil, err
	}
	p := t.Provider
	out := protocol.Outgoing{Path: r.Path, Header: r.Header, Body: r.Body}
	err = e.Wrap(&out, codec.Place{Model: t.Model, Stream: r.Stream, Project: p.Project, Location: p.Location}, report)
	r.Path, r.Header, r.Body = out.Path, out.Header, out.Body
	return report.Losses, cmp.Or(err, report.Err())
}

// Unwrap takes a response out of the envelope of the target's provider, so that the lanes
// read what an upstream without one sends.
func (t *Target) Unwrap(c *Call, trip *upstream.RoundTrip) *llm.Error {
	e, frames := t.Envelope(), t.Dialect.Frames
	if e != nil && e.Frames != nil {
		frames = e.Frames
	}
	resp := trip.Response
	if frames != nil && upstream.MediaType(resp.Header) == eventstream.MediaType {
		resp.Body = eventstream.NewReader(resp.Body, frames)
		resp.Header["Content-Type"] = []string{"text/event-stream"}
		resp.ContentLength = -1
		return nil
	}
	if e == nil || e.Unwrap == nil || resp.StatusCode < http.StatusBadRequest && c.Operation != codec.CountTokens {
		return nil
	}
	read := trip.ReadError
	if resp.StatusCode < http.StatusBadRequest {
		read = func() ([]byte, *llm.Error) { return trip.ReadBody(c.Settings.Limits.Answer) }
	}
	body, err := read()
	if err != nil {
		return err
	}
	resp.StatusCode, body = e.Unwrap(resp.StatusCode, resp.Header, body)
	trip.ReplaceBody(body)
	return nil
}

// open takes the client's request out of its envelope. It returns the body in the dialect's
// form, and gives the call the headers of that form.
func (c *Call) open(body []byte) ([]byte, *llm.Error) {
	if c.Envelope == nil || c.Envelope.Open == nil {
		return body, nil
	}
	if other := c.Envelope.Other; other != nil && c.Operation == codec.CountTokens {
		if x, err := wire.IndexObject(body); err == nil && other.Is(&x) {
			c.Dialect, c.Envelope = other.Dialect, nil
			return body, nil
		}
	}
	body, header, err := c.Envelope.Open(c.Location, body)
	if err != nil {
		return nil, err
	}
	client := *c.Client
	client.Header = client.Header.Clone()
	for name, values := range header {
		client.Header[name] = append(client.Header[name], values...)
	}
	if v := c.Dialect.Versions; v != nil && v.Header != "" {
		if inner := header[v.Header]; inner != nil { // the cloud does not read the header
			client.Header[v.Header] = inner
		}
		c.Version = client.Header.Get(v.Header)
	}
	c.Client = &client
	return body, nil
}

// SetForm makes the writer send responses in the form of a client's envelope, or in the
// frames of its dialect.
func (c *ClientWriter) SetForm(d *codec.Dialect, at codec.Location) {
	e := at.Envelope
	if e == nil && d.Frames == nil {
		return
	}
	f := &form{frames: d.Frames, count: at.Operation == codec.CountTokens}
	if e != nil {
		f.envelope, f.frames = e, e.Frames
	}
	c.form = f
}

// form changes responses of a dialect into those of a cloud.
type form struct {
	envelope *codec.Envelope // nil: none
	frames   *codec.Frames   // nil: server-sent events
	count    bool            // a response is a token count

	status int
	sealed bool                // the body is sealed
	stream *eventstream.Writer // nil: the response is no stream
}

// start changes the headers of a response that begins.
func (f *form) start(status int, h http.Header) {
	f.status = status
	e := f.envelope
	switch {
	case f.frames != nil && upstream.MediaType(h) == "text/event-stream":
		f.stream = eventstream.NewWriter(f.frames)
		h["Content-Type"] = []string{eventstream.MediaType}
	case e != nil && e.Seal != nil && (status >= http.StatusBadRequest || f.count):
		f.sealed = true
		delete(h, "Content-Length")
	}
	if e != nil && e.Header != nil {
		maps.Copy(h, e.Header(status, f.stream != nil))
	}
}

// convert changes a part of the body: whole events of a stream, or everything.
func (f *form) convert(p []byte) ([]byte, error) {
	switch {
	case f.stream != nil:
		return f.stream.Frames(p)
	case f.sealed:
		return f.envelope.Seal(f.status, p), nil
	}
	return p, nil
}
