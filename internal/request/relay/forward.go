package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// forwarded is the route of the paths that a provider's configuration lists.
var forwarded = codec.Route{Name: "path", Operation: codec.Forward}

// forward serves a path that a provider's configuration lists: exactly that method and
// path. It does not parse the bodies.
func (r *Relay) forward(s *State, p *provider.Provider, w http.ResponseWriter, req *http.Request) {
	q := r.newRequest(s, ingress.Endpoint{Dialect: r.dialects.Claimed(req), Location: codec.Location{Route: &forwarded, URLPath: req.URL.EscapedPath()}}, w, req)
	defer q.record()
	q.Writer.SetReadDeadline(time.Time{}) // the server has set one for the whole request
	defer q.Writer.StopBody()
	q.attempt = &attempt{target: &exchange.Target{Target: route.Target{Provider: p, Timeouts: p.Timeouts}}}
	q.Target = q.attempt.target
	q.Result.Target = p.Name
	for _, step := range [...]func(*request) *llm.Error{(*request).identify, (*request).admit, (*request).reserveForward, (*request).sendForward, (*request).relayForward} {
		if err := step(q); err != nil {
			q.sendError(err)
			return
		}
	}
}

// reserveForward opens the account of a request that is only forwarded.
func (q *request) reserveForward() (err *llm.Error) {
	q.Account, err = q.state.Books.ReserveForwarded(q.ctx, q.billingRequest())
	return err
}

// sendForward sends the request and waits for the response headers.
func (q *request) sendForward() *llm.Error {
	a, client := q.attempt, q.Call.Client
	q.Record.Route("", q.Target.Provider.Name, q.Result.Target)
	path := q.Call.URLPath
	if query := agents.WithoutKey(client.URL.RawQuery); query != "" {
		path += "?" + query
	}
	req := q.withCredential(a, &http.Request{Method: client.Method, URL: q.Target.Provider.URL(path), Header: q.Call.UpstreamHeaders(q.Call.DialectHeaders()), ProtoMajor: 1, ProtoMinor: 1})
	a.sentAt = time.Now()
	size, limit := client.ContentLength, q.state.Limits.Body
	if size > limit {
		return exchange.TooLarge(limit)
	}
	q.Result.Attempts++
	if size == 0 {
		defer q.noteResponse()
		return a.trip.Do(req)
	}
	body := a.trip.Upload(q.Writer.LimitBody(client.Body, limit))
	req.ContentLength, req.Body = size, body
	// The transport does not return while it reads the client's body.
	stop := context.AfterFunc(a.trip.Context(), q.Writer.StopBody)
	defer stop()
	err := a.trip.Do(req)
	q.noteResponse()
	q.Result.BytesIn = body.Bytes()
	if err == nil {
		if !body.Complete() {
			q.Writer.CloseUnread(client)
		}
		return nil
	}
	if cause := body.Err(); cause != nil {
		return q.Call.BodyError(cause, limit)
	}
	return err
}

// relayForward relays the response unchanged, piece by piece.
func (q *request) relayForward() *llm.Error {
	resp := q.Trip.Response
	status := resp.StatusCode
	if status < 200 || status >= 300 {
		return q.SendStatus()
	}
	q.Result.Status = status
	q.Writer.Start(status, func(h http.Header) {
		h["Content-Type"] = nil // keeps net/http from guessing one
		q.SetHeaders(h)
		q.CopyContentType(h)
		if n := resp.ContentLength; n >= 0 {
			h["Content-Length"] = []string{strconv.FormatInt(n, 10)}
		}
	})
	created := q.relay.Owners.NewCreated(q.Call.Tenant, q.Call.Client.Method, resp.ContentLength)
	buf := upstream.Buffer()
	defer upstream.Free(buf)
	for {
		n, err := resp.Body.Read(buf[:])
		created.Read(buf[:n], errors.Is(err, io.EOF))
		if errors.Is(err, io.EOF) {
			q.Charge()
		}
		if werr := q.Writer.Write(buf[:n], time.Now()); werr != nil {
			return upstream.ClientGone(werr)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return q.Trip.Error(err)
		}
		if err := q.Writer.Flush(); err != nil {
			return upstream.ClientGone(err)
		}
	}
}
